"""Write the golden trajectories anew: all, or those named."""

import sys

from tests.golden import (
    INSTANCES,
    REPAIRS,
    golden_file,
    normalised,
    repair_trajectory,
    trajectory,
)

for name in sys.argv[1:] or (*INSTANCES, *REPAIRS):
    found = repair_trajectory(name) if name in REPAIRS else trajectory(name)
    golden_file(name).write_text(normalised(found), encoding="utf-8")
    print(golden_file(name).name)
