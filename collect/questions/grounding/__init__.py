"""Whether an answer's claims were observed in its conversation."""
