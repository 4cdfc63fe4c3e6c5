"""Numbers of a run for wandb and trackio, while it goes on."""
