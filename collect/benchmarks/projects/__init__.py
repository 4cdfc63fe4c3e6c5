"""A real project as bugs are found or made in it: its sources, its tests, how a failure shows."""
