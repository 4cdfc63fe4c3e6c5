from __future__ import annotations

import json
from pathlib import Path

import pytest

from collect.benchmarks.local import LocalBenchmark
from collect.errors import ConfigError
from tests.collect.factory.sample import FILES, write_project
from tests.collect.repository import Repository

LINE = {
    "id": "shop-1",
    "problem_statement": "The total is old after `take`.",
    "fail_to_pass": ["tests/test_stock.py::test_total_follows"],
    "test_paths": ["tests"],
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def benchmark(folder: Path, **fields: object) -> LocalBenchmark:
    (folder / "bugs.jsonl").write_text(json.dumps({**LINE, **fields}) + "\n")
    return LocalBenchmark(folder)


def test_a_line_names_a_git_url_and_a_commit(tmp_path: Path) -> None:
    repository = Repository(write_project(tmp_path / "shop"))
    first = repository.commit()
    repository.commit(later="x = 1\n")
    (bug,) = benchmark(tmp_path, repository=repository.url, commit=first).instances()
    assert (bug.repository, bug.commit, bug.files.keys()) == ("shop", first, FILES.keys())
    (bug,) = benchmark(tmp_path, repository=repository.url).instances()
    assert bug.files.keys() == {*FILES, "later.py"}
    (bug,) = benchmark(tmp_path, repository="shop", commit=first[:10]).instances()
    assert (bug.repository, bug.commit) == ("shop", first)


def test_what_can_not_be_had_names_the_bug(tmp_path: Path) -> None:
    nowhere = benchmark(tmp_path, repository=f"file://{tmp_path}/nowhere")
    with pytest.raises(ConfigError, match=r"bugs\.jsonl: shop-1: repository: .*can't be cloned"):
        nowhere.instances()
    with pytest.raises(ConfigError, match=r"shop-1: repository: no such folder"):
        benchmark(tmp_path, repository="shop").instances()


def test_a_misspelt_key_is_told_with_the_one_that_is_near(tmp_path: Path) -> None:
    misspelt = benchmark(tmp_path, repositry="shop")
    with pytest.raises(ConfigError, match=r"line 1: repositry: .*; did you mean 'repository'\?"):
        misspelt.instances()
    misspelt = benchmark(tmp_path, repository="shop", failure={"type": "E", "mesage": "no"})
    with pytest.raises(ConfigError, match=r"failure\.mesage: .*; did you mean 'message'\?"):
        misspelt.instances()
