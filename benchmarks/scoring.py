"""What scoring costs, and what it says: each bug of a config with its gold patch, and with none.

`python -m benchmarks.scoring CONFIG [key=value ...]` prints a line a verdict, its seconds, and a
digest of all verdicts: the same for two versions of the code that judge alike. To compare the
seconds of two versions, run them in turns on the same bugs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import time
from pathlib import Path

from collect.benchmarks.base import Benchmark, Instance
from collect.benchmarks.opening import open_benchmark, select_instances
from collect.rollouts.scoring import score
from configs.loading import load_config
from sandbox import SandboxConfig


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", help="a config with a `collect` section, or the name of one")
    parser.add_argument("overrides", nargs="*", help="key=value, as for `stepinto collect`")
    options = parser.parse_args()
    config = load_config(Path(options.config), options.overrides)
    assert config.collect is not None, f"{options.config} has no `collect` section"
    benchmark = open_benchmark(config.collect.benchmark, config.sandbox)
    said, seconds = hashlib.sha256(), list[float]()
    for instance in select_instances(config.collect.benchmark, benchmark):
        for name, patch in (("gold", instance.gold_patch), ("none", "")):
            taken, facts = scored(benchmark, instance, patch, config.sandbox)
            seconds.append(taken)
            said.update(json.dumps([instance.id, name, facts]).encode())
            print(f"{instance.id} {name} {facts[0]} {taken:.3f}", flush=True)
    print(f"{len(seconds)} verdicts, digest {said.hexdigest()[:16]}")
    print(f"median {statistics.median(seconds):.3f} s, sum {sum(seconds):.1f} s")


def scored(
    benchmark: Benchmark, instance: Instance, patch: str, sandbox: SandboxConfig
) -> tuple[float, tuple[bool, list[tuple[str, str]]]]:
    """Seconds, whether it is resolved, and each test's status."""
    began = time.monotonic()
    verdict = score(benchmark, instance, patch, sandbox)
    taken = time.monotonic() - began
    return taken, (verdict.resolved, [(test.name, str(test.after)) for test in verdict.tests])


if __name__ == "__main__":
    main()
