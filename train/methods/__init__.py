"""The training methods: on conversations, on pairs of them, and on rewards; one file each."""
