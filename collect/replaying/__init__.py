"""Replay verification: repeated tool calls must give the recorded observations."""
