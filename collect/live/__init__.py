"""The debug subagent and the debug tools, live on the user's own repository."""
