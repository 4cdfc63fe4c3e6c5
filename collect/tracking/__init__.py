"""Logs a run's metrics to wandb and trackio."""
