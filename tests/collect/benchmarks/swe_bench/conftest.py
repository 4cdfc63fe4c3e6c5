"""An image as SWE-bench makes them: a small repository of root's at /testbed, with a future."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from sandbox.engine import connect
from tests.collect.benchmarks.swe_bench.rows import GOLD

# Each process of a parallel run makes and removes its own.
IMAGE = f"stepinto-test-sweb:{os.getpid()}"
MAKE = f"""
set -eu
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b HOME=/tmp
mkdir -p /testbed/counter /testbed/tests && cd /testbed
git init -q
touch counter/__init__.py
cat >counter/totals.py <<'END'
def total(numbers):
    return sum(numbers[:-1])
END
cat >counter/other.py <<'END'
def largest(numbers):
    best = numbers[0]
    for number in numbers:
        if number > best:
            best = number
    return best
END
cat >tests/test_counter.py <<'END'
from counter.totals import total

def test_empty():
    assert total([]) == 0
END
git add -A && git commit -qm base
git rev-parse HEAD >/base
git apply - <<'END'
{GOLD}END
git commit -qam 'the fix of the future' && git tag future
git reset -q --hard HEAD~
chmod -R 777 .
conda=/opt/miniconda3
mkdir -p $conda/bin $conda/envs/testbed/bin
cat >$conda/bin/activate <<'END'
conda() {{ export CONDA_DEFAULT_ENV=$2 PATH=/opt/miniconda3/envs/$2/bin:$PATH; }}
END
ln -s /usr/bin/python3 $conda/envs/testbed/bin/python3
printf '#!/bin/sh\nexec python3 -m pytest "$@"\n' >$conda/envs/testbed/bin/pytest
chmod +x $conda/envs/testbed/bin/pytest
echo 'made by the setup' >setup.txt
"""


@pytest.fixture(scope="session")
def bug_image(git_image: str) -> Iterator[tuple[str, str]]:
    """The image's tag and its repository's base commit."""
    client = connect()
    container = client.containers.create(
        git_image, ["sh", "-c", f"{{ {MAKE} }} >/dev/null; cat /base"], network_mode="none"
    )
    try:
        container.start()
        assert container.wait(timeout=60)["StatusCode"] == 0, container.logs()
        base = container.logs(stdout=True, stderr=False).decode().strip()
        container.commit(*IMAGE.split(":"))
    finally:
        container.remove(force=True)
    yield IMAGE, base
    client.images.remove(IMAGE, force=True)
    client.close()
