"""The commands: one function per action, from its options to its exit status."""
