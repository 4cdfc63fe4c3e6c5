"""Questions about a program's run whose true answers are known: made, answered and scored."""
