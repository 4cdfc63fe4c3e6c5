"""How a run is getting on, for those who look at it."""
