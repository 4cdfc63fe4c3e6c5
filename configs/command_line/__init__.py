"""What `stepinto bench` does: one function an action, from its options to its exit status."""
