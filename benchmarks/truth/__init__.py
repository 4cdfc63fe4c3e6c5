"""Whether the debugger tells the truth: its hits, stops and values beside those of a plain trace.

`python -m benchmarks.truth` measures each language by a function of a module of its own.
"""
