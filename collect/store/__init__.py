"""The run folder: its records, their Parquet form, and files that survive a crash."""
