"""The benchmark of real projects starts tests through our door, and tells why one does not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import yaml

from benchmarks.projects import (
    LIST,
    Outcome,
    Plain,
    PlainFailed,
    Project,
    factory_config,
    find_python,
    is_in_test,
    read_list,
    source,
    summary,
    table,
)
from configs.loading import load_config

TEST = "from shop import total\ndef test_total():\n    price = 2\n    assert total([price]) == 2\n"
PYTEST = f"printf '#!/bin/sh\\nexec {sys.executable} -m pytest \"$@\"' > $VIRTUAL_ENV/bin/pytest"
"""Makes an environment whose pytest is ours: a test installs nothing."""


def project(**fields: str) -> Project:
    given = {"name": "shop", "url": "https://example.org/a/shop", "revision": "a" * 40}
    return Project.model_validate(
        given | {"test": "test_shop.py::test_total", "shows": "all"} | fields
    )


def test_the_list_is_long_and_pinned() -> None:
    projects = read_list(LIST)
    languages = Counter(each.language for each in projects)
    assert languages["python"] >= 30
    assert languages["java"] >= 12
    assert len({each.name for each in projects}) == len(projects)
    assert all(len(each.revision) == 40 for each in projects)
    assert all(each.install for each in projects if each.language == "python")


def test_a_start_counts_in_the_file_of_the_test() -> None:
    stop = "Paused at test_shop.py:3 in test_total (entry)"
    assert is_in_test(stop, "test_shop.py")
    assert not is_in_test(stop, "tests/test_shop.py")
    assert not is_in_test("Paused at test_shop.py:3 in f (post mortem: E)", "test_shop.py")
    assert not is_in_test("Error (launch_failed): test_shop.py: no", "test_shop.py")


def test_a_mirror_is_named_by_owner_and_name(tmp_path: Path) -> None:
    mirror = tmp_path / "a+shop"
    mirror.mkdir()
    assert source(project(), None) == "https://example.org/a/shop"
    assert source(project(url="https://example.org/a/shop.git"), tmp_path) == str(mirror)
    (mirror / "repo").mkdir()
    assert source(project(), tmp_path) == str(mirror / "repo")


def test_a_config_makes_bugs_of_the_projects(tmp_path: Path) -> None:
    path = tmp_path / "listed.yaml"
    path.write_text(yaml.safe_dump(factory_config(read_list(LIST), None)))
    config = load_config(path, [])
    assert len(config.factory.projects) == len(read_list(LIST))
    assert config.factory.projects[0].revision == read_list(LIST)[0].revision


def test_builds_run_the_test_in_its_module(tmp_path: Path) -> None:
    named = project(language="java", test="com.shop.CartTest#adds")
    plain = Plain(named, None, tmp_path)
    tests = plain.checkout / "core" / "src" / "test" / "java" / "com" / "shop"
    tests.mkdir(parents=True)
    (tests / "CartTest.java").touch()
    (plain.checkout / "core" / "build.gradle").touch()
    gradle = ["gradle", "-q", ":core:test", "--rerun-tasks", "--tests", "com.shop.CartTest.adds"]
    assert plain.build() == gradle
    (plain.checkout / "core" / "pom.xml").touch()
    assert plain.build()[-4:] == ["-pl", "core", "-am", "test"]


def test_an_absent_interpreter_is_told() -> None:
    with pytest.raises(PlainFailed, match=r"no python3\.0 on this machine"):
        find_python("3.0")


def test_ratios_are_of_medians() -> None:
    fast = Outcome(project=project(), plain_error="", started=True, cold=9.0)
    fast.plain, fast.stops, fast.restarts = [1.0, 2.0, 9.0], [3.0], [1.0]
    lost = Outcome(project=project(), plain_error="", answer="Error (build_failed):\nno shop")
    cells = [[*column.cells] for column in table([fast, lost]).columns]
    assert [first for first, _ in cells[:8]] == [
        *("shop", "yes", "9.0", "2.0", "3.0", "1.50", "1.0", "0.50")
    ]
    assert [second for _, second in cells[-1:]] == ["Error (build_failed): no shop"]
    assert summary([fast, lost]) == "python: 1 of 2 started at the first try"


@pytest.mark.slow
def test_two_repositories_are_measured(tmp_path: Path) -> None:
    revisions = {
        "shop": commit(tmp_path / "a+shop", {"shop.py": "total = sum\n", "test_shop.py": TEST}),
        "lost": commit(tmp_path / "a+lost", {"test_shop.py": TEST}),
    }
    entries = [
        project(
            name=name, url=f"https://example.org/a/{name}", revision=revision, install=PYTEST_READY
        ).model_dump()
        for name, revision in revisions.items()
    ]
    (tmp_path / "list.yaml").write_text(yaml.safe_dump(entries))
    places = [f"--{name}={tmp_path / place}" for name, place in PLACES.items()]
    command = [sys.executable, "-m", "benchmarks.projects", *places, "--rounds", "1"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "python: 1 of 2 started at the first try" in printed
    shop, lost = json.loads((tmp_path / "work" / "results.json").read_text())
    assert shop["started"]
    assert [len(shop[times]) for times in ("plain", "stops", "restarts")] == [1, 1, 1]
    assert int(shop["installed"]) > 0
    assert not lost["started"]
    assert "No module named 'shop'" in lost["answer"]
    assert "No module named 'shop'" in lost["plain_error"]


PLACES = {"list": "list.yaml", "mirrors": ".", "folder": "work"}
PYTEST_READY = f"{PYTEST} && chmod +x $VIRTUAL_ENV/bin/pytest"


def commit(folder: Path, files: dict[str, str]) -> str:
    """Make a git repository of these files, and give its revision."""
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    user = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "."], [*user, "commit", "-qm", "first"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    found = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=folder, text=True)
    return found.strip()
