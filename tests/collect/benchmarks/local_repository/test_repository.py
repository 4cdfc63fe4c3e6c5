from __future__ import annotations

import json
import os
import re
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from collect.benchmarks.base import Benchmark, Instance
from collect.benchmarks.config import BenchmarkConfig
from collect.benchmarks.local_repository import open_session
from collect.benchmarks.marks import Mark, verify_instance
from collect.benchmarks.opening import open_benchmark
from collect.benchmarks.workspace import TreeTooLarge, read_folder, read_regular
from collect.errors import ConfigError
from collect.rollouts.stage import run_collect
from collect.store.run_store import RunStore
from configs.loading import RunConfig
from sandbox import SandboxConfig
from sandbox.debugger import Action, BreakpointRequest, State
from sandbox.errors import DebuggerError
from tests.collect.repository import Repository
from tests.collect.synthesis.sample import FILES, write_project
from tests.collect.synthesis.test_layout import wheel

FAILING = "tests/test_stock.py::test_total_follows"
STOCK = "src/shop/stock.py"
LEFT = "            self.counts[name] = left\n"
BUGGY = {**FILES, STOCK: FILES[STOCK].replace(f"{LEFT}        self._total = None\n", LEFT)}
needs_maven = pytest.mark.skipif(shutil.which("mvn") is None, reason="there is no Maven here")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def opened(place: Path | str, **keys: Any) -> tuple[Benchmark, Instance]:
    benchmark = open_benchmark(BenchmarkConfig(name="local", path=str(place), **keys))
    (instance,) = benchmark.instances()
    return benchmark, instance


def refused(place: Path | str, **keys: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        opened(place, **keys)
    return str(caught.value)


def test_a_folder_whose_tests_fail_is_a_bug(tmp_path: Path, cache: Path) -> None:
    folder = write_project(tmp_path / "shop", BUGGY)
    benchmark, bug = opened(folder)
    assert re.fullmatch(r"shop-[0-9a-f]{12}", bug.id)
    assert (bug.language, bug.repository, bug.gold_patch) == ("python", "shop", "")
    assert bug.fail_to_pass == (FAILING,)
    assert "tests/test_stock.py::test_adding[2]" in bug.pass_to_pass
    assert len(bug.pass_to_pass) == 11
    assert (bug.test_paths, bug.files.keys()) == (("tests",), BUGGY.keys())
    assert bug.environment.import_paths == ("src", ".")
    assert "stock.total" in bug.problem_statement
    assert f"`{FAILING}`" in bug.problem_statement

    verification = verify_instance(benchmark, bug, SandboxConfig())
    assert (verification.marks, verification.problems) == ((Mark.NO_GOLD,), ())
    (kept,) = (cache / "stepinto" / "local-repositories").iterdir()
    kept.write_text(kept.read_text().replace("stock.total", "from what was kept"))
    assert "from what was kept" in opened(folder)[1].problem_statement


def test_a_git_url_and_a_commit_name_a_bug(tmp_path: Path) -> None:
    repository = Repository(write_project(tmp_path / "shop", BUGGY))
    buggy = repository.commit()
    write_project(tmp_path / "shop")
    repository.commit()
    _, bug = opened(repository.url, commit=buggy)
    assert (bug.id, bug.repository, bug.commit) == (f"shop-{buggy[:12]}", "shop", buggy)
    assert bug.fail_to_pass == (FAILING,)
    assert opened(tmp_path / "shop", commit=buggy[:10])[1].id == bug.id
    assert "no test fails, 12 pass" in refused(repository.url)
    assert "has no commit, branch or tag v9" in refused(repository.url, commit="v9")
    assert "can't be cloned" in refused(f"{repository.url}/nowhere")


def test_what_the_user_says_counts(tmp_path: Path) -> None:
    folder = write_project(tmp_path / "shop", BUGGY)
    issue = tmp_path / "issue.md"
    issue.write_text("Totals are old.\n")
    keys: dict[str, Any] = {"problem_statement": str(issue), "variables": {"SHOP": "1"}}
    command = "python -m pytest tests/test_stock.py -k 'total or limit'"
    _, bug = opened(folder, test_command=command, **keys)
    assert bug.problem_statement == "Totals are old.\n"
    assert (bug.fail_to_pass, bug.pass_to_pass) == (
        (FAILING,),
        ("tests/test_stock.py::test_limit",),
    )
    assert bug.environment.variables["SHOP"] == "1"
    named = {"fail_to_pass": ("tests/test_stock.py::test_total",)}
    assert f"did not run; the nearest are {FAILING}" in refused(folder, **named)
    passing = {"fail_to_pass": ("tests/test_stock.py::test_limit",)}
    assert "test_limit does not fail, it is passed" in refused(folder, **passing)
    assert "issue.txt can't be read" in refused(folder, problem_statement="issue.txt")


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"test_command": "make check"}, "is no test runner that StepInto knows: give `pytest`"),
        ({"test_command": "python check.py"}, "is no test runner that StepInto knows"),
        ({"test_command": "pytest tests/no.py"}, "tests/no.py is no file, folder or test of shop"),
        ({"test_command": "uv run pytest tests/no.py"}, "tests/no.py is no file, folder or test"),
        ({"test_command": "mvn test"}, "without a command, if benchmark.language is java"),
        ({"test_command": "pytest", "language": "java"}, "runs tests in Python"),
        ({"test_command": "'"}, "is no test runner that StepInto knows"),
        ({"test_command": " "}, "is no test runner that StepInto knows"),
        ({"test_command": "pytest 2>&1 | tee log"}, "2>&1 is no file, folder or test of shop"),
        ({"test_command": "pip install x && pytest"}, "is no test runner that StepInto knows"),
        ({"test_command": "A=1 pytest"}, "variables have a key of their own, benchmark.variables"),
        ({"language": "java"}, "no Java tests among its 6 files"),
        ({"import_paths": (".",)}, "not one test can be loaded (tests/test_prices.py, tests/test_"),
        ({"test_command": "pytest --no-such"}, "unrecognized arguments: --no-such"),
        ({"problem_statement": " "}, "problem_statement is empty"),
    ],
)
def test_what_can_not_work_is_refused(tmp_path: Path, keys: dict[str, Any], told: str) -> None:
    assert told in refused(write_project(tmp_path / "shop", BUGGY), **keys)


@pytest.mark.slow
def test_folders_without_a_bug_are_refused(tmp_path: Path) -> None:
    none = write_project(tmp_path / "none", {"shop.py": "x = 1\n"})
    assert "none: no tests among its 1 files" in refused(none)
    large = write_project(tmp_path / "large", {"data.txt": "x" * 2_000_000})
    assert "more than 1 MB of files; raise max_tree_mb" in refused(large, max_tree_mb=1)
    inside = {"test_it.py": "def test():\n    import not_to_be_had\n"}
    absent = write_project(tmp_path / "absent", inside)
    assert "every test fails to import what it needs: ModuleNotFoundError" in refused(absent)
    endless = {"test_it.py": "def test_end():\n    while True: pass\n\ndef test_other(): pass\n"}
    stuck = write_project(tmp_path / "stuck", endless)
    assert "did not end in benchmark.test_timeout (3 s)" in refused(stuck, test_timeout=3)
    named = {"fail_to_pass": ("test_it.py::test_end",), "test_timeout": 3}
    assert opened(stuck, **named)[1].fail_to_pass == ("test_it.py::test_end",)


def test_keys_of_a_repository_are_for_repositories(tmp_path: Path) -> None:
    (tmp_path / "bugs.jsonl").write_text("")
    assert "benchmark.commit is about a repository" in refused(tmp_path, commit="v1")
    with pytest.raises(ValueError, match="commit: for name=local alone"):
        BenchmarkConfig(name="bundled", commit="v1")


@pytest.mark.slow
@needs_maven
@pytest.mark.usefixtures("offline_maven")
def test_java_is_told_by_its_build_file(tmp_path: Path) -> None:
    bundled = Path(__file__).parents[4] / "collect" / "benchmarks" / "bundled"
    folder = tmp_path / "parcelroute"
    shutil.copytree(bundled / "repositories" / "parcelroute", folder)
    van = folder / "src/main/java/org/parcelroute/dispatch/Van.java"
    van.write_text(van.read_text().replace("new ArrayList<>(load)", "load"))
    (folder / "target").mkdir()
    (folder / "target" / "Old.java").write_text("@Test")
    _, bug = opened(folder)
    failing = "org.parcelroute.dispatch.LoadPlannerTest#aFullVanIsFollowedByAnother"
    assert (bug.language, bug.fail_to_pass) == ("java", (failing,))
    assert (
        "The first one fails with:\n\n```\norg.junit.ComparisonFailure: " in bug.problem_statement
    )
    assert (len(bug.pass_to_pass), bug.test_paths) == (21, ("src/test",))
    assert failing in bug.problem_statement
    assert "target/Old.java" not in bug.files
    van.write_text(van.read_text().replace("return destination;", "return nowhere;"))
    assert "not one test can be loaded (the build); it must work" in refused(folder)


def test_rollouts_are_collected_on_it(tmp_path: Path) -> None:
    folder = write_project(tmp_path / "shop", BUGGY)
    fix = f"sed -i 's/^ *self.counts.name. = left$/&; self._total = None/' {STOCK}"
    call = {"name": "bash", "arguments": json.dumps({"command": fix})}
    recording = {"role": "main", "replies": [{"tool_calls": [call]}, {"content": "Done."}]}
    (tmp_path / "main.jsonl").write_text(json.dumps(recording))
    config = RunConfig.model_validate(
        {
            "run": "own",
            "runs_folder": str(tmp_path / "runs"),
            "models": {
                "oracle": {"backend": "oracle"},
                "main": {"backend": "replay", "path": str(tmp_path / "main.jsonl")},
            },
            "collect": {
                "benchmark": {"name": "local", "path": str(folder)},
                "variants": ["baseline"],
                "main": "main",
            },
        }
    )
    assert run_collect(config, config.collect, config.folder).resolved == 1
    (row,) = RunStore(config.folder).read_rollouts()
    assert f"+{LEFT.rstrip()}; self._total = None" in row.patch
    by_oracle = config.collect.model_copy(update={"main": "oracle"})
    with pytest.raises(ConfigError, match="has no gold patch, which is all that the oracle knows"):
        run_collect(config, by_oracle, config.folder)


@pytest.mark.slow
def test_requirements_files_are_installed_and_what_could_reach_anything_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    wheel(tmp_path)
    files = {
        "pens.py": "def left():\n    return 2\n",
        "test_pens.py": "from pens import *\n\n\ndef test_it(pens):\n    assert left() == pens\n",
        "requirements-test.txt": "pytest\nshop-plugin==1.0\n./vendored\n",
    }
    _, bug = opened(write_project(tmp_path / "shop", files))
    assert bug.fail_to_pass == ("test_pens.py::test_it",)
    assert bug.environment.packages == ("shop-plugin==1.0",)
    told = capsys.readouterr().err
    assert "shop: not installed: requirements-test.txt: ./vendored; the setting packages" in told
    more = {**files, "requirements.txt": "no-such-package"}
    _, bug = opened(write_project(tmp_path / "other", more))
    assert bug.environment.packages == ("shop-plugin==1.0",)
    why = "No matching distribution found for no-such-package"
    assert bug.environment.missing == {"no-such-package": why}


@pytest.mark.slow
def test_a_suite_that_ends_its_process_is_run_to_its_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tests = "".join(f"def test_{n}():\n    pass\n\n\n" for n in range(4))
    ends = "def test_ends():\n    os._exit(0)\n\n\ndef test_last():\n    pass\n"
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "test_shop.py").write_text(f"import os\n\n\n{tests}{ends}")
    _, bug = opened(folder)
    assert bug.fail_to_pass == ("test_shop.py::test_ends",)
    assert len(bug.pass_to_pass) == 5
    assert "pytest's process ended during test_shop.py::test_ends" in capsys.readouterr().err


def test_a_suite_without_a_passing_test_is_suspected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fixture = """\
import pytest


@pytest.fixture(autouse=True)
def built():
    assert False, "the extension is not built"
"""
    files = {**FILES, "tests/conftest.py": fixture, "speed.c": "int x;\n"}
    _, bug = opened(write_project(tmp_path / "shop", files))
    told = capsys.readouterr().err
    assert "none of its 12 tests passes; the first fails with 'AssertionError: the ext" in told
    assert "extension modules (speed.c) are not built here" in told
    assert "AssertionError: the extension is not built" in bug.problem_statement


def test_the_statement_has_what_the_failure_says(tmp_path: Path) -> None:
    test = """\
from unittest import TestCase

from shop.stock import Stock


class Test(TestCase):
    def test_total(self):
        total = Stock({"pen": 2}).total
        self.assertIs(total, None, "a total of nothing")
"""
    _, bug = opened(write_project(tmp_path / "shop", {**FILES, "tests/test_new.py": test}))
    assert "AssertionError: 2 is not None : a total of nothing" in bug.problem_statement


def test_pytest_itself_is_refused(tmp_path: Path) -> None:
    folder = write_project(tmp_path / "shop", {**BUGGY, "src/pytest/__init__.py": ""})
    assert "src/pytest/__init__.py: the tests of pytest" in refused(folder)


def test_extension_modules_that_are_not_built_are_suspected(tmp_path: Path) -> None:
    files = {
        "shop/__init__.py": "from shop._speed import total\n",
        "shop/_speed.c": "int x;\n",
        "tests/test_shop.py": "from shop import total\n\n\ndef test():\n    assert total()\n",
    }
    told = refused(write_project(tmp_path / "shop", files))
    assert "extension modules (shop/_speed.c) are not built here" in told


def test_a_name_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    folder = write_project(tmp_path / "shop", BUGGY)
    Path(os.fsdecode(os.fsencode(folder) + b"/bad\xff.txt")).write_text("")
    assert r"the name of 'bad\udcff.txt' is not UTF-8: rename the file" in refused(folder)


def test_files_that_vanish_while_the_repository_is_read_are_left_out(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / f"{number}.py").write_text("")
    passing, done = tmp_path / "draft", Event()
    passing.touch()

    def come_and_go() -> None:
        while not done.is_set():
            passing.rename(tmp_path / "saved").rename(passing)

    with ThreadPoolExecutor() as pool:
        going = pool.submit(come_and_go)
        try:
            for _ in range(20):
                assert len(read_folder(tmp_path)) >= 100
        finally:
            done.set()
    going.result()


def test_what_takes_the_place_of_a_file_is_skipped(tmp_path: Path) -> None:
    secret, folder = tmp_path / "secret", tmp_path / "repository"
    secret.write_text("secret")
    folder.mkdir()
    for name in ("a.py", "link.py", "pipe.py"):
        (folder / name).write_text("")

    def swap_then_read(path: str, found: os.stat_result) -> bytes:
        if os.path.basename(path) == "a.py":
            for name in ("link.py", "pipe.py"):
                (folder / name).unlink()
            (folder / "link.py").symlink_to(secret)
            os.mkfifo(folder / "pipe.py")
        return read_regular(path, found)

    assert read_folder(folder, read=swap_then_read) == {"a.py": b""}


def test_links_within_the_folder_are_copies(tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    (folder / "docs").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("token")
    (tmp_path / "secret").write_text("secret")
    (folder / "docs" / "index.rst").write_text("Shop")
    for link, target in {
        "README.rst": "docs/index.rst",
        "tests/data": "../docs",
        "absolute": str(folder / "docs" / "index.rst"),
        "again.rst": "README.rst",
        "docs/index.rst.txt": "index.rst",
        "docs/parent": "..",
        "docs/itself": "../docs",
        "loop": "loop",
        "gone": "nowhere",
        "outside": "../secret",
        "git": ".git/config",
    }.items():
        path = folder / link
        path.parent.mkdir(exist_ok=True)
        path.symlink_to(target)
    names = ("README.rst", "absolute", "again.rst", "docs/index.rst", "docs/index.rst.txt")
    assert read_folder(folder) == dict.fromkeys((*names, "tests/data/index.rst"), b"Shop")


def test_links_count_as_files_of_their_size(tmp_path: Path) -> None:
    (tmp_path / "many").mkdir()
    for number in range(100):
        (tmp_path / "many" / str(number)).touch()
    for number in range(10):
        (tmp_path / f"link{number}").symlink_to("many")
    assert len(read_folder(tmp_path, max_mb=5)) == 1100
    with pytest.raises(TreeTooLarge):
        read_folder(tmp_path, max_mb=3)


def test_many_links_take_no_time(tmp_path: Path) -> None:
    for folder in ("files", "nowhere", "chain"):
        (tmp_path / folder).mkdir()
    for number in range(3000):
        (tmp_path / "files" / str(number)).touch()
        (tmp_path / "nowhere" / str(number)).symlink_to("gone")
        (tmp_path / "chain" / str(number)).symlink_to(str(number - 1))
    began = time.process_time()
    assert len(read_folder(tmp_path)) == 3000
    assert time.process_time() - began < 5


def test_a_file_that_can_not_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret.py").touch(mode=0)
    tmp_path.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    user = os.geteuid()
    os.seteuid(user or 65534)
    try:
        with pytest.raises(ConfigError, match=r"^secret.py can't be read: Permission denied;"):
            read_folder(Path())
    finally:
        os.seteuid(user)


@pytest.mark.parametrize(
    ("code", "test"),
    [
        ("ns/sub/mod.py", "tests/ns/test_it.py"),
        pytest.param("m\u00f6dul.py", "tests mit leer/test_gr\u00fcn.py", marks=pytest.mark.slow),
        pytest.param("mod.py", "mod_test.py", marks=pytest.mark.slow),
    ],
)
def test_other_layouts_are_run(tmp_path: Path, code: str, test: str) -> None:
    module = code.removesuffix(".py").replace("/", ".")
    text = f"from {module} import f\n\n\ndef test():\n    assert f() == 2\n"
    files = {code: "def f():\r\n    return 1\r\n", test: text.replace("\n", "\r\n")}
    _, bug = opened(write_project(tmp_path / "shop", files))
    assert bug.fail_to_pass == (f"{test}::test",)


def test_a_session_on_a_test_is_paused_at_its_start(tmp_path: Path) -> None:
    folder = write_project(tmp_path / "shop", BUGGY)
    with open_session(folder, FAILING) as session:
        stop = session.control(Action.STEP_OVER)
        assert (stop.file, stop.state) == ("tests/test_stock.py", State.RUNTIME)
        session.set_breakpoint(BreakpointRequest(file=STOCK, function="Stock.total"))
        assert session.control(Action.CONTINUE).file == STOCK
        assert "self" in {value.name for value in session.locals().values}
    assert session.state is State.START
    with (
        pytest.raises(DebuggerError, match=r"test_stock.py::test_totals: .*test_total_follows"),
        open_session(folder, "tests/test_stock.py::test_totals"),
    ):
        pass


def test_a_session_whose_fixture_fails_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    conftest = (
        "import pytest\n\n@pytest.fixture(autouse=True)\ndef server():\n    raise OSError(7)\n"
    )
    folder = write_project(tmp_path / "shop", {**BUGGY, "tests/conftest.py": conftest})
    with open_session(folder, FAILING) as session:
        assert session.state is State.POST_MORTEM
        assert session.first_stop is not None
        assert (session.first_stop.file, session.first_stop.line) == ("tests/conftest.py", 5)
    assert "is not paused at its first line: Paused at tests/conftest.py:5 in server" in caplog.text


def test_a_missing_module_of_a_conftest_is_told_with_what_to_do(tmp_path: Path) -> None:
    folder = write_project(tmp_path / "shop", {**BUGGY, "tests/conftest.py": "import nowhere\n"})
    told = refused(folder)
    assert "benchmark.more_packages " in told
    assert "No module named 'nowhere'" in told
    with (
        pytest.raises(
            DebuggerError, match=r"(?s)No module named 'nowhere'.*benchmark.more_packages "
        ),
        open_session(folder, FAILING),
    ):
        pass
