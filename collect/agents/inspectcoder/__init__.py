"""InspectCoder: the Program Inspector and the Patch Coder (arXiv:2510.18327)."""
