"""How fast debug sessions are, beside the bare thing measured in the same run.

`python -m benchmarks.debugger_speed` prints one table: launches beside bare pdb and jdb, single
actions, the program's own slow-down, and how many sessions a machine holds. Medians of runs that
take turns, so that a busy moment of the machine hits all alike; ratios are what to trust.
"""
