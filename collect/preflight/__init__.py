"""What is looked at before work starts."""
