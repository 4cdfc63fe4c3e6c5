"""Verifications that are kept, and what collect and eval skip by them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from collect.benchmarks.base import Instance, TestResults, TestStatus
from collect.benchmarks.bundled import BundledBenchmark
from collect.benchmarks.config import BenchmarkConfig
from collect.benchmarks.marks import (
    EnvironmentFingerprint,
    Finding,
    Mark,
    Verification,
    Verifications,
    note_verified,
    verify,
)
from collect.benchmarks.opening import choose_instances
from collect.errors import ConfigError
from collect.store.run_store import RunStore
from configs.loading import load_config
from sandbox import Sandbox, SandboxConfig, open_sandbox
from sandbox.errors import SandboxDead
from stepinto import main

SANDBOX = SandboxConfig()
QUICKSTART = Path(__file__).parents[3] / "configs" / "quickstart.yaml"


class Counted(BundledBenchmark):
    """Three bugs whose tests come out as they should, at once; counts the runs of each."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.runs: list[str] = []
        self.fails_on: str | None = None

    def instances(self) -> list[Instance]:
        [bug] = super().instances()
        return [replace(bug, id=name) for name in ("one", "two", "three")]

    def run_tests(self, instance: Instance, sandbox: Sandbox, tests: Iterable[str]) -> TestResults:
        if instance.id == self.fails_on:
            raise SandboxDead("killed from outside")
        self.runs.append(instance.id)
        buggy = b"[:-1]" in sandbox.read_file("counter/totals.py")
        failed = TestStatus.FAILED if buggy else TestStatus.PASSED
        of_failing = dict.fromkeys(instance.fail_to_pass, failed)
        of_passing = dict.fromkeys(instance.pass_to_pass, TestStatus.PASSED)
        return TestResults({**of_failing, **of_passing}, "", seconds=5.0)


@pytest.fixture
def benchmark(bundle: Path) -> Counted:
    return Counted(bundle)


@pytest.fixture
def kept(tmp_path: Path) -> Verifications:
    return Verifications(tmp_path / "kept")


def again(kept: Verifications) -> Verifications:
    """As another process sees them."""
    return Verifications(kept.folder)


def marked(instance: Instance, *marks: Mark) -> Verification:
    findings = [Finding(mark=mark, text=f"is {mark}") for mark in marks]
    return Verification.of(
        instance, EnvironmentFingerprint(SANDBOX).name(instance), findings=tuple(findings)
    )


def test_a_second_time_only_what_is_missing_is_run(benchmark: Counted, kept: Verifications) -> None:
    bugs = benchmark.instances()
    benchmark.fails_on = "two"
    first = verify(benchmark, bugs, SANDBOX, workers=1, verifications=kept)
    assert [each.marks for each in first] == [(Mark.OK,), (), (Mark.OK,)]
    assert "SandboxDead" in first[1].failure
    benchmark.fails_on = None
    second = verify(benchmark, bugs, SANDBOX, workers=1, verifications=again(kept))
    assert benchmark.runs == ["one", "one", "three", "three", "two", "two"]
    assert [each.ok for each in second] == [True] * 3
    verify(benchmark, bugs, SANDBOX, workers=1, again=True, verifications=again(kept))
    assert len(benchmark.runs) == 12
    [more] = verify(benchmark, bugs[:1], SANDBOX, repeats=2, verifications=again(kept))
    assert more.repeats == 2
    assert len(benchmark.runs) == 16


def test_how_slow_is_slow_takes_no_new_run(benchmark: Counted, kept: Verifications) -> None:
    bugs = benchmark.instances()[:1]
    verify(benchmark, bugs, SANDBOX, verifications=kept)
    [done] = verify(benchmark, bugs, SANDBOX, slow_over=4, verifications=again(kept))
    assert (done.marks, done.problems) == ((Mark.SLOW,), ("slow: 5.0 s, more than 4",))
    found = again(kept).find(bugs[0], done.ran_in)
    assert found == done
    assert len(benchmark.runs) == 2


def test_an_interrupted_verification_loses_nothing(benchmark: Counted, kept: Verifications) -> None:
    def stop(verification: Verification) -> None:
        raise KeyboardInterrupt

    bugs = benchmark.instances()
    with pytest.raises(KeyboardInterrupt):
        verify(benchmark, bugs, SANDBOX, workers=1, verifications=kept, on_done=stop)
    path = kept.path("bundled")
    path.write_text(path.read_text() + '{"benchmark": "bund')
    verify(benchmark, bugs, SANDBOX, workers=1, verifications=again(kept))
    assert benchmark.runs == ["one", "one", "two", "two", "three", "three"]
    assert all(again(kept).find(bug, EnvironmentFingerprint(SANDBOX).name(bug)) for bug in bugs)


def test_marks_are_of_the_bug_and_of_what_ran_it(benchmark: Counted, kept: Verifications) -> None:
    one = benchmark.instances()[0]
    note_verified([one], SANDBOX, kept)
    name = EnvironmentFingerprint(SANDBOX).name(one)
    assert kept.find(one, name) is not None
    assert kept.find(replace(one, problem_statement="another"), name) is None
    assert kept.find(one, "local, Python 2.7.18") is None
    assert not kept.any_of("humanevalfix")
    other = SandboxConfig(environment={"TZ": "Asia/Tokyo"})
    assert (
        EnvironmentFingerprint(other).name(one)
        == f'{name}, {{"environment": {{"TZ": "Asia/Tokyo"}}}}'
    )
    with pytest.raises(ValueError, match="no mark"):
        kept.add(Verification.of(one, name, failure="SandboxDead: gone"))


def test_marked_bugs_are_skipped_and_limit_counts_the_rest(
    benchmark: Counted, kept: Verifications
) -> None:
    one, two, three = benchmark.instances()
    kept.add(marked(one, Mark.BROKEN, Mark.FLAKY))

    def chosen(**settings: object) -> list[str]:
        config = BenchmarkConfig.model_validate({"name": "bundled", **settings})
        choice = choose_instances(config, benchmark, SANDBOX, kept)
        return [*(bug.id for bug in choice.instances), *filter(None, [str(choice)])]

    assert chosen() == ["two", "three", "1 bug is skipped: 1 broken (one)"]
    assert chosen(limit=1) == ["two", "1 bug is skipped: 1 broken (one)"]
    assert chosen(skip=["flaky"])[0] == "two"
    assert chosen(skip=["slow"]) == chosen(skip=[]) == ["one", "two", "three"]
    kept.add(marked(two, Mark.SLOW))
    kept.add(marked(three, Mark.BROKEN))
    told = r"no instance left: 3 bugs are skipped: 2 broken \(one, three\), 1 slow \(two\)"
    with pytest.raises(ConfigError, match=told):
        chosen()


@pytest.mark.slow
def test_the_command_verifies_and_collect_skips(
    bundle: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    broken = bundle / "bugs" / "counter__wrong"
    broken.mkdir()
    for file in (bundle / "bugs" / "counter__total").iterdir():
        text = file.read_text().replace("test_counter.py::test_total", "test_counter.py::test_none")
        (broken / file.name).write_text(text)
    overrides = [f"runs_folder={tmp_path}", "run=test", f"collect.benchmark.path={bundle}"]
    given = [str(QUICKSTART), *overrides, "collect.benchmark.split=all"]
    assert main(["bench", "list", *given]) == 0
    assert capsys.readouterr().out.count("not verified") == 2
    assert main(["bench", "verify", *given, "--repeats", "1"]) == 1
    assert "1 of 2 instances are as they claim" in capsys.readouterr().out
    assert main(["bench", "list", *given]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines] == ["ok", "broken"]
    assert main(["collect", *given, "collect.variants=[baseline]"]) == 0
    assert "1 bug is skipped: 1 broken (counter__wrong)" in capsys.readouterr().err
    folder = load_config(QUICKSTART, overrides).folder
    assert [row.instance_id for row in RunStore(folder).read_rollouts()] == ["counter__total"]


@pytest.mark.docker
def test_an_image_is_named_by_its_digest(benchmark: Counted, image: str) -> None:
    one = benchmark.instances()[0]
    docker = SandboxConfig(backend="docker", image=image)
    with open_sandbox(docker) as sandbox:
        assert EnvironmentFingerprint(docker).name(one) == f"docker, {sandbox.image_digest}"
    missing = docker.model_copy(update={"image": "stepinto-no-such-image:0"})
    assert EnvironmentFingerprint(missing).known_name(one) is None
    [done] = verify(benchmark, [one], missing)
    assert done.failure.startswith("ImageMissing: the image 'stepinto-no-such-image:0'")
    assert "needs an image" in verify(benchmark, [one], SandboxConfig(backend="docker"))[0].failure


def test_a_java_bug_is_run_by_a_jdk(benchmark: Counted) -> None:
    if shutil.which("javac") is None:
        pytest.skip("needs a JDK on this machine")
    java = replace(benchmark.instances()[0], language="java")
    assert re.fullmatch(r"local, Java \d+[\w.]*", EnvironmentFingerprint(SANDBOX).name(java))
    nowhere = SandboxConfig.model_validate({"java": {"java_home": "/nowhere"}})
    assert EnvironmentFingerprint(nowhere).known_name(java) is None
