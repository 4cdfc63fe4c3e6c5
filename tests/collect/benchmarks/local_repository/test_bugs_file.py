from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from collect.benchmarks import local
from collect.benchmarks.local import LocalBenchmark
from collect.code.patches import changed_paths, diff_trees
from collect.errors import ConfigError
from collect.rollouts.stage import run_collect
from collect.store.run_store import RunStore
from configs.loading import RunConfig
from tests.collect.repository import Repository
from tests.collect.synthesis.sample import FILES, write_project
from tests.repair_bug import BUGGY, CORRECT, FAILING, PUBLIC

ROOT = Path(__file__).resolve().parents[4]
LINE = {
    "id": "shop-1",
    "problem_statement": "The total is old after `take`.",
    "fail_to_pass": ["tests/test_stock.py::test_total_follows"],
    "test_paths": ["tests"],
}
STOCK = "src/shop/stock.py"
FIXED = {STOCK: FILES[STOCK].replace("left < 0", "left <= 0").encode()}
PATCH = diff_trees({STOCK: FILES[STOCK].encode()}, FIXED)


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


def test_the_projects_version_is_that_of_its_tags_or_of_the_line(tmp_path: Path) -> None:
    repository = Repository(write_project(tmp_path / "shop"))
    repository.commit()
    repository.git("tag", "v1.2")
    (of_tags,) = benchmark(tmp_path, repository=repository.url).instances()
    (of_line,) = benchmark(tmp_path, repository="shop", version="3.0").instances()
    (unknown,) = benchmark(tmp_path, repository="shop").instances()
    versions = [bug.environment.version for bug in (of_tags, of_line, unknown)]
    assert versions == ["1.2", "3.0", None]
    assert of_line.hash != unknown.hash


def test_what_can_not_be_had_names_the_bug(tmp_path: Path) -> None:
    nowhere = benchmark(tmp_path, repository=f"file://{tmp_path}/nowhere")
    with pytest.raises(ConfigError, match=r"bugs\.jsonl: shop-1: repository: no such folder"):
        nowhere.instances()
    Repository(write_project(tmp_path / "store")).commit()
    with pytest.raises(ConfigError, match=r"shop-1: repository: .*/store: has no commit.* v9"):
        benchmark(tmp_path, repository="store", commit="v9").instances()
    with pytest.raises(ConfigError, match=r"shop-1: repository: no such folder"):
        benchmark(tmp_path, repository="shop").instances()


@pytest.mark.parametrize(
    "named", ["/etc", "../private", "linked", "shop/../../private", "file://{}/private"]
)
@pytest.mark.parametrize("commit", [None, "trunk"])
def test_no_file_comes_from_outside_the_files_folder(
    tmp_path: Path, named: str, commit: str | None
) -> None:
    Repository(tmp_path / "private").commit(keys="SECRET = 1\n")
    folder = tmp_path / "data"
    write_project(folder / "shop")
    (folder / "linked").symlink_to("../private")
    asked = benchmark(folder, repository=named.format(tmp_path), commit=commit)
    with pytest.raises(ConfigError, match=r"shop-1: repository: .* is not below .*: move or copy"):
        asked.instances()


@pytest.mark.parametrize("way", [".git", "commondir", "alternates", "objects", "folder"])
def test_a_repository_does_not_lead_to_another(tmp_path: Path, way: str) -> None:
    private = Repository(tmp_path / "private")
    commit = private.commit(keys="SECRET = 1\n")
    git = tmp_path / "data" / "shop" / ".git"
    git.parent.mkdir(parents=True)
    if way == ".git":
        git.write_text(f"gitdir: {private.folder}/.git\n")
    elif way == "folder":
        git.symlink_to(private.folder / ".git")
    else:
        Repository(git.parent)
        (git / "refs" / "heads" / "trunk").write_text(f"{commit}\n")
    if way == "commondir":
        (git / "commondir").write_text(f"{private.folder}/.git\n")
    elif way == "alternates":
        (git / "objects" / "info" / "alternates").write_text(f"{private.folder}/.git/objects\n")
    elif way == "objects":
        shutil.rmtree(git / "objects")
        (git / "objects").symlink_to(private.folder / ".git" / "objects")
    with pytest.raises(ConfigError, match="leads to files elsewhere: copy the repository"):
        benchmark(tmp_path / "data", repository="shop", commit="trunk").instances()


def test_git_runs_nothing_that_a_repository_names(tmp_path: Path) -> None:
    repository = Repository(write_project(tmp_path / "shop"))
    commit = repository.commit()
    repository.run_whenever_it_can(tmp_path / "marker")
    (bug,) = benchmark(tmp_path, repository="shop", commit=commit).instances()
    assert bug.files.keys() == FILES.keys()
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("value", ["ext::sh -c 'touch {}'", "--upload-pack=touch {}", "-utouch {}"])
def test_no_address_or_commit_is_a_command(tmp_path: Path, value: str) -> None:
    Repository(write_project(tmp_path / "shop")).commit()
    hostile = value.format(tmp_path / "marker")
    for fields in ({"repository": hostile}, {"repository": "shop", "commit": hostile}):
        with pytest.raises(ConfigError, match="shop-1: repository: "):
            benchmark(tmp_path, **fields).instances()
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("commit", [None, "trunk"])
def test_a_huge_repository_is_refused_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commit: str | None
) -> None:
    monkeypatch.setattr(local, "MAX_TREE_MB", 1)
    repository = Repository(write_project(tmp_path / "shop"))
    (repository.folder / "huge").write_bytes(bytes(2 << 20))
    repository.commit()
    monkeypatch.setattr(Path, "read_bytes", None)
    with pytest.raises(ConfigError, match=r"shop-1: repository: .*more than 1 MB of files"):
        benchmark(tmp_path, repository="shop", commit=commit).instances()


def test_packages_are_names(tmp_path: Path) -> None:
    write_project(tmp_path / "shop")
    with pytest.raises(ConfigError, match=r"line 1: packages\.0: .*is not the name of a package"):
        benchmark(tmp_path, repository="shop", packages=["evil @ file:///tmp/evil"]).instances()


def test_a_misspelt_key_is_told_with_the_one_that_is_near(tmp_path: Path) -> None:
    misspelt = benchmark(tmp_path, repositry="shop")
    with pytest.raises(ConfigError, match=r"line 1: repositry: .*; did you mean 'repository'\?"):
        misspelt.instances()
    misspelt = benchmark(tmp_path, repository="shop", failure={"type": "E", "mesage": "no"})
    with pytest.raises(ConfigError, match=r"failure\.mesage: .*; did you mean 'message'\?"):
        misspelt.instances()


def refused(folder: Path, *lines: dict[str, object], **config: object) -> str:
    text = "".join(json.dumps({**LINE, **line}) + "\n" for line in lines)
    (folder / "bugs.jsonl").write_text(text)
    with pytest.raises(ConfigError) as caught:
        LocalBenchmark(folder, **config).instances()  # type: ignore[arg-type]
    return str(caught.value)


def test_all_bugs_that_can_not_be_used_are_told_at_once(tmp_path: Path) -> None:
    write_project(tmp_path / "shop")
    told = refused(
        tmp_path,
        {"repository": "shop"},
        {"id": "shop-2", "repository": "shp"},
        {"id": "shop-3", "repository": "shop", "gold_patch": PATCH.replace("\n", "\r\n")},
    )
    assert "2 of 3 bugs can't be used, fix or remove them" in told
    assert "shop-2: repository: no such folder" in told
    assert "shop-3: gold_patch does not fit the buggy tree of shop" in told
    assert "only the line endings differ (CRLF and LF)" in told


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ({"test_paths": ["test"]}, "test_paths: test is no file or folder of shop; the nearest"),
        ({"test_paths": ["tests\\test_stock.py"]}, "nearest are tests/test_stock.py"),
        (
            {"pass_to_pass": ["test/test_stock.py::test_total"]},
            "test/test_stock.py, of the test test/test_stock.py::test_total, is no file of shop; "
            "the nearest are tests/test_stock.py",
        ),
        ({"import_paths": ["scr"]}, "import_paths: scr is no folder of shop; the nearest are src"),
        ({"import_paths": ["../.."]}, "import_paths: ../.. is no folder of shop"),
        ({"commit": "v1"}, "is not the top folder of a git repository, so there is no commit v1"),
        ({"gold_patch": "s/<=/</"}, "it is no unified diff of text files"),
        ({"solution": "shop/stock.py"}, "is no file of shop outside of test_paths; the nearest"),
        ({"solution": "tests/test_stock.py"}, "is no file of shop outside of test_paths"),
        ({"solution": "src/shop/prices.py", "gold_patch": PATCH}, "changes src/shop/stock.py too"),
    ],
)
def test_paths_that_the_tree_lacks_are_refused(
    tmp_path: Path, line: dict[str, object], told: str
) -> None:
    write_project(tmp_path / "shop")
    assert told in refused(tmp_path, {"repository": "shop", **line})


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ({"id": "a\nb"}, "line 1: the record: id must not be blank, nor have line breaks"),
        ({"id": " "}, "line 1: the record: id must not be blank"),
        ({"problem_statement": " \n"}, "line 1: the record: problem_statement must not be blank"),
        ({"variables": {"A=B": "1"}}, "variables: 'A=B' can't be the name of a variable"),
        ({"pass_to_pass": LINE["fail_to_pass"]}, "is twice in fail_to_pass and pass_to_pass"),
    ],
)
def test_fields_that_can_not_work_are_refused(
    tmp_path: Path, line: dict[str, object], told: str
) -> None:
    write_project(tmp_path / "shop")
    assert told in refused(tmp_path, {"repository": "shop", **line})


def test_test_paths_may_be_written_in_other_ways(tmp_path: Path) -> None:
    write_project(tmp_path / "shop")
    (bug,) = benchmark(tmp_path, repository="shop", test_paths=["./tests/"]).instances()
    assert bug.test_paths == ("tests",)


def test_bugs_in_another_language_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_project(tmp_path / "shop")
    java: dict[str, object] = {"id": "shop-2", "repository": "shop", "language": "java"}
    told = refused(tmp_path, java)
    assert told.endswith("the language of all 1 bug is java: set benchmark.language=java")
    text = "".join(json.dumps({**LINE, **line}) + "\n" for line in ({"repository": "shop"}, java))
    (tmp_path / "bugs.jsonl").write_text(text)
    assert [bug.id for bug in LocalBenchmark(tmp_path).instances()] == ["shop-1"]
    told = capsys.readouterr().err
    assert "1 of 2 bugs left out, whose language is java" in told
    assert "benchmark.language=all takes them too" in told


@pytest.mark.slow
def test_inspectcoder_repairs_the_one_file_that_a_bug_names(tmp_path: Path) -> None:
    write_project(
        tmp_path / "words",
        {
            "src/words.py": BUGGY,
            "checks/test_words.py": PUBLIC.replace("from solution", "from words"),
            "notes.md": "Nothing.\n",
        },
    )
    path = "src/words.py"
    line = {
        "id": "words-1",
        "repository": "words",
        "problem_statement": "`top_word` takes the last of several words.",
        "fail_to_pass": [f"checks/test_words.py::{FAILING.partition('::')[2]}"],
        "pass_to_pass": ["checks/test_words.py::test_one_word"],
        "test_paths": ["checks"],
        "import_paths": ["src"],
        "gold_patch": diff_trees({path: BUGGY.encode()}, {path: CORRECT.encode()}),
        "solution": path,
    }
    (tmp_path / "bugs.jsonl").write_text(json.dumps(line) + "\n")
    config = RunConfig.model_validate(
        {
            "run": "own",
            "runs_folder": str(tmp_path / "runs"),
            "models": {"oracle": {"backend": "oracle"}},
            "collect": {
                "benchmark": {"name": "local", "path": str(tmp_path)},
                "variants": ["inspectcoder"],
                "main": "oracle",
                "sub": "oracle",
            },
        }
    )
    run_collect(config, config.collect, config.folder)
    (row,) = RunStore(config.folder).read_rollouts()
    assert (row.failure_message, row.resolved, row.variant) == (None, True, "inspectcoder")
    assert changed_paths(row.patch) == {path}
    assert row.debug_stops > 0


def test_the_pages_bug_is_solved_without_a_key(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "own-bugs.md").read_text("utf-8").split("## A file of bugs", 1)[1]
    commands = re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[0]
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    stepinto = f'stepinto() {{ "{sys.executable}" -m stepinto "$@"; }}'
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run(
        ["bash", "-ec", f"{stepinto}\n{commands}"], cwd=tmp_path, env=environment, check=True
    )
    (row,) = RunStore(tmp_path / "runs" / "own-file").read_rollouts()
    assert (row.instance_id, row.resolved) == ("shop-1", True)
