"""Replay verification: recorded tool calls, driven again, must show what was recorded."""
