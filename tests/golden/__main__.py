"""Write the golden trajectories anew."""

from tests.golden import INSTANCES, golden_file, normalised, trajectory

for instance_id in INSTANCES:
    golden_file(instance_id).write_text(normalised(trajectory(instance_id)), encoding="utf-8")
    print(golden_file(instance_id).name)
