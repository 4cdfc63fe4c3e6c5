"""A copy of the run folder in a store that outlives the machine: S3, GCS, or a shared folder."""
