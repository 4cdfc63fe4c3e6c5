"""Questions about a program's run with known answers: building, answering, scoring."""
