"""The way back: a Debug Subagent's conversation as the Program Inspector's that it was made of."""
