"""Whether what an answer states was seen in the conversation that gave it."""
