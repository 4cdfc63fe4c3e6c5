"""What a run costs: foretold, looked at before it starts, and asked for above a limit."""
