from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import stepinto
from collect.benchmarks import gitbug_java
from collect.benchmarks.base import TestStatus
from collect.benchmarks.config import BenchmarkConfig
from collect.benchmarks.gitbug_java import (
    GitBugJavaBenchmark,
    read_records,
    read_reports,
    remove_reports,
    run_project_tests,
    worst_by_id,
)
from collect.benchmarks.marks import verify_instance
from collect.benchmarks.opening import open_benchmark, select_instances
from collect.benchmarks.workspace import check_out
from collect.code.patches import apply_patch, diff_trees
from collect.errors import ConfigError
from collect.rollouts.rollout import score
from sandbox import Command, Sandbox, SandboxConfig
from sandbox.errors import SandboxFileError, SandboxUnavailable
from tests.collect.benchmarks.gitbug_java.bug import (
    BEFORE,
    BUGGY,
    CORRECT,
    SOURCE,
    TEST,
    make_clone,
    record,
)
from tests.collect.repository import Repository

SHARED = Path(__file__).parents[4] / "../shared/data/gitbug-java"
DATA = Path(os.environ.get("STEPINTO_GITBUG_JAVA", SHARED)).resolve()
IDS = (
    "made.CounterTest#starts",
    "made.CounterTest#counts(int)[1]",
    "made.CounterTest#counts(int)[2]",
)


@pytest.fixture
def benchmark(tmp_path: Path) -> GitBugJavaBenchmark:
    (tmp_path / "bugs").mkdir()
    row = record(*make_clone(tmp_path / "clones"))
    (tmp_path / "bugs" / "made-counter.json").write_text(json.dumps(row) + "\n")
    return GitBugJavaBenchmark(tmp_path / "bugs", repositories=tmp_path / "clones")


def test_the_buggy_tree_is_the_commit_before_with_the_fix_s_other_files_and_tests(
    benchmark: GitBugJavaBenchmark, tmp_path: Path
) -> None:
    [bug] = benchmark.instances()
    assert dict(bug.files) == {path: text.encode() for path, text in BUGGY.items()}
    fixed = apply_patch(bug.files, bug.gold_patch)
    assert fixed == {path: text.encode() for path, text in CORRECT.items()}
    assert bug.fail_to_pass == IDS[2:]
    assert bug.pass_to_pass == IDS[:2]
    assert bug.test_paths == ("src/test", TEST)
    clone = tmp_path / "clones" / "made-counter"
    assert subprocess.check_output(["git", "status", "--porcelain"], cwd=clone) == b""


def test_what_a_project_does_not_ship_is_in_its_tree(tmp_path: Path) -> None:
    fix, before = make_clone(tmp_path / "clones")
    clone = tmp_path / "clones" / "made-counter"
    (clone / ".git" / "info" / "attributes").write_text(f"{TEST} export-ignore\n")
    (tmp_path / "bugs.json").write_text(json.dumps(record(fix, before)) + "\n")
    [bug] = GitBugJavaBenchmark(
        tmp_path / "bugs.json", repositories=tmp_path / "clones"
    ).instances()
    assert TEST in bug.files


def test_git_runs_nothing_that_a_clone_names(
    benchmark: GitBugJavaBenchmark, tmp_path: Path
) -> None:
    Repository(tmp_path / "clones" / "made-counter").run_whenever_it_can(tmp_path / "marker")
    [bug] = benchmark.instances()
    assert bug.files.keys() == BUGGY.keys()
    assert not (tmp_path / "marker").exists()


def test_a_repository_s_name_leads_nowhere_else(tmp_path: Path) -> None:
    row = {**record("0" * 40, "1" * 40), "repository": "../.."}
    (tmp_path / "bugs.json").write_text(json.dumps(row))
    with pytest.raises(ConfigError, match="repository"):
        GitBugJavaBenchmark(tmp_path / "bugs.json", repositories=tmp_path).instances()


def test_the_statement_tells_the_issue_and_the_failures_and_not_the_fix(
    benchmark: GitBugJavaBenchmark,
) -> None:
    [bug] = benchmark.instances()
    assert bug.problem_statement == (
        "# It stops at 1\n\nAlways.\n\nThese tests fail:\n\n"
        "- `made.CounterTest#counts(int)[2]`: AssertionError: expected 6\n"
    )


def test_empty_files_hold_no_records(tmp_path: Path) -> None:
    bugs = tmp_path / "bugs"
    bugs.mkdir()
    (bugs / "a.json").write_text("\n")
    config = BenchmarkConfig(name="gitbug_java", language="java", path=str(bugs))
    with pytest.raises(ConfigError, match="holds no bugs"):
        select_instances(config, open_benchmark(config))
    row = record(*make_clone(tmp_path / "clones"))
    (bugs / "made-counter.json").write_text(json.dumps(row) + "\n")
    assert len(GitBugJavaBenchmark(bugs, repositories=tmp_path / "clones").instances()) == 1


def test_records_without_a_failing_test_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fix, before = make_clone(tmp_path / "clones")
    row = record(fix, before)
    never = {**row, "commit_hash": before, "actions_runs": [*row["actions_runs"][:2], None]}
    path = tmp_path / "bugs.jsonl"
    path.write_text(json.dumps(never) + "\n")
    benchmark = GitBugJavaBenchmark(path, repositories=tmp_path / "clones")
    with pytest.raises(ConfigError, match=r"1 of 1 record left out, for no test of theirs fails"):
        benchmark.instances()
    path.write_text(f"{json.dumps(never)}\n{json.dumps(row)}\n")
    benchmark = GitBugJavaBenchmark(path, repositories=tmp_path / "clones")
    assert [bug.id for bug in benchmark.instances()] == [f"made-counter-{fix[:12]}"]
    assert "1 of 2 records left out" in capsys.readouterr().err


def test_ids_are_the_repository_and_twelve_digits(benchmark: GitBugJavaBenchmark) -> None:
    [bug] = benchmark.instances()
    prefix, _, digits = bug.id.rpartition("-")
    assert (prefix, len(digits), bug.repository) == ("made-counter", 12, "made/counter")


def test_a_fix_without_code_is_the_other_files_alone(tmp_path: Path) -> None:
    fix, before = make_clone(tmp_path)
    row = record(fix, before)
    row |= {"non_code_patch": row["bug_patch"], "bug_patch": ""}
    path = tmp_path / "bug.jsonl"
    path.write_text(json.dumps(row))
    [bug] = GitBugJavaBenchmark(path, repositories=tmp_path).instances()
    assert bug.gold_patch == row["non_code_patch"]
    assert bug.files.keys() == BEFORE.keys()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("mvn") is None, reason="no Maven on this machine")
def test_a_bug_out_of_a_clone_verifies(benchmark: GitBugJavaBenchmark) -> None:
    [bug] = benchmark.instances()
    assert verify_instance(benchmark, bug, SandboxConfig()).problems == ()


# Writes the report that the build tool would have written, and ends before that does so.
FORGED = """\
package made;
import java.nio.file.*;
class Counter {
    int next(int n) {
        try {
            StringBuilder xml = new StringBuilder("<testsuite>");
            for (String name : new String[] {"starts", "counts(int)[1]", "counts(int)[2]"})
                xml.append("<testcase classname='made.CounterTest' name='" + name + "'/>");
            Path folder = Paths.get("target/surefire-reports");
            Files.createDirectories(folder);
            Files.write(folder.resolve("TEST-made.xml"), (xml + "</testsuite>").getBytes());
        } catch (java.io.IOException e) { throw new RuntimeException(e); }
        Runtime.getRuntime().halt(0);
        return 0;
    }
}
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("mvn") is None, reason="no Maven on this machine")
def test_reports_that_a_program_writes_are_tampering(benchmark: GitBugJavaBenchmark) -> None:
    [bug] = benchmark.instances()
    made = diff_trees(bug.files, {**bug.files, SOURCE: FORGED.encode()})
    found = score(benchmark, bug, made, SandboxConfig())
    assert {test.after for test in found.tests} == {TestStatus.PASSED}
    assert "in a signed one" in str(found.tampered)
    fixed = score(benchmark, bug, bug.gold_patch, SandboxConfig())
    assert (fixed.resolved, fixed.unchecked) == (True, ())


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("mvn") is None, reason="no Maven on this machine")
def test_a_build_tool_that_fails_is_told_from_errors_in_the_sources(sandbox: Sandbox) -> None:
    def failure(changes: dict[str, str]) -> str | None:
        files = {path: text.encode() for path, text in {**BUGGY, **changes}.items()}
        sandbox.write_files(files)
        results = run_project_tests(sandbox, "maven", IDS, 120)
        assert not changes or set(results.statuses.values()) == {TestStatus.MISSING}
        return results.build_failure

    assert failure({}) is None, "some tests fail"
    assert failure({SOURCE: "package made;\nclass Counter { int x = 1 }\n"}) is None
    assert "1.2.3" in (failure({"pom.xml": BUGGY["pom.xml"].replace("5.9.2", "1.2.3")}) or "")


def test_what_is_missing_is_said(tmp_path: Path, benchmark: GitBugJavaBenchmark) -> None:
    path = tmp_path / "bugs"
    with pytest.raises(ConfigError, match=r"set benchmark\.repositories .* or benchmark\.image"):
        len(GitBugJavaBenchmark(path).instances()[0].files)
    with pytest.raises(ConfigError, match=r"no clone of made/counter; .* `git clone https"):
        len(GitBugJavaBenchmark(path, repositories=path).instances()[0].files)
    row = record("1" * 40, "2" * 40)
    (path / "made-counter.json").write_text(json.dumps(row))
    with pytest.raises(ConfigError, match="has no commit 2222"):
        len(GitBugJavaBenchmark(path, repositories=tmp_path / "clones").instances()[0].files)
    with pytest.raises(ConfigError, match=r"benchmark\.language=java"):
        open_benchmark(BenchmarkConfig(name="gitbug_java", path=str(path)))


def test_a_bug_that_stands_in_two_files_is_refused(
    tmp_path: Path, benchmark: GitBugJavaBenchmark
) -> None:
    first = tmp_path / "bugs" / "made-counter.json"
    first.with_name("other.json").write_text(first.read_text())
    told = r"other\.json, line 1: made-counter-\w+ stands in .*made-counter\.json, line 1 already"
    with pytest.raises(ConfigError, match=told):
        benchmark.instances()


def test_an_image_is_named_by_a_pattern(tmp_path: Path, benchmark: GitBugJavaBenchmark) -> None:
    config = BenchmarkConfig(
        name="gitbug_java",
        language="java",
        path=str(tmp_path / "bugs"),
        image="bugs:{repository}-{commit}",
        image_folder="/code",
    )
    [bug] = open_benchmark(config).instances()
    [known] = benchmark.instances()
    assert bug.image is not None
    assert bug.image.startswith(f"bugs:{known.id}")
    assert bug.image_workspace is not None
    assert bug.image_workspace.folder == "/code"
    assert not bug.files


def test_an_image_s_clone_is_brought_to_the_buggy_version(sandbox: Sandbox) -> None:
    script = (
        "git init -q && git config user.name a && git config user.email a@b && mkdir -p src && "
        "echo 1 >src/a && git add -A && git commit -qm 1 && git rev-parse HEAD && "
        "echo 2 >src/a && git commit -qam 2 && echo 3 >gitbug.json"
    )
    before = sandbox.run(Command(["sh", "-c", script])).output.strip()
    patch = "diff --git a/t b/t\nnew file mode 100644\n--- /dev/null\n+++ b/t\n@@ -0,0 +1 @@\n+x\n"
    check_out(sandbox, before, [patch])
    assert sandbox.read_tree() == {"src/a": b"1\n", "t": b"x\n"}


REPORT = """<testsuite>
<testcase classname="a.B" name="one()"/>
<testcase classname="a.B" name="says what it does"><error message="x"/></testcase>
<testcase classname="a.B" name="off"><skipped/></testcase>
<testcase classname="a.B" name="twice"/><testcase classname="a.B" name="twice"><failure/></testcase>
<testcase classname="a.C" name=""/>
</testsuite>"""
GRADLE_REPORT = b'<testsuite><testcase classname="a.D" name="x{int}[1]"/></testsuite>'


def test_reports_of_both_tools_are_read(sandbox: Sandbox) -> None:
    sandbox.write_files(
        {
            "m/target/surefire-reports/TEST-a.B.xml": REPORT.encode(),
            "n/build/test-results/test/TEST-D.xml": GRADLE_REPORT,
            "target/surefire-reports/TEST-broken.xml": b"<testsuite><testcase",
            "other/report.xml": b'<s><testcase classname="not" name="read"/></s>',
        }
    )
    assert read_reports(sandbox) == {
        "a.B#one": TestStatus.PASSED,
        "a.B#says what it does": TestStatus.FAILED,
        "a.B#off": TestStatus.SKIPPED,
        "a.B#twice": TestStatus.FAILED,
        "a.C": TestStatus.PASSED,
        "a.D#x(int)[1]": TestStatus.PASSED,
    }
    remove_reports(sandbox)
    assert read_reports(sandbox) == {}
    assert sandbox.read_tree().keys() == {"other/report.xml"}


def test_a_flood_of_reports_is_not_read(sandbox: Sandbox) -> None:
    places = "target/surefire-reports"
    flood = f"mkdir -p {places} && for n in 1 2 3; do head -c 100M /dev/zero >{places}/$n.xml; done"
    assert sandbox.run(Command(["sh", "-c", flood])).exit_code == 0
    with pytest.raises(SandboxFileError, match="more than 262144 KiB"):
        read_reports(sandbox)


@pytest.mark.parametrize("report", [b"<a>" * 1_000_000, b"<a>" + b"<testcase/>" * 100_001])
def test_reports_of_another_form_take_no_memory(sandbox: Sandbox, report: bytes) -> None:
    sandbox.write_files({"target/surefire-reports/TEST-a.xml": report})
    with pytest.raises(SandboxFileError, match="more than 100 levels or 100000 tests"):
        read_reports(sandbox)


def test_a_program_that_ends_the_build_tool_hides_no_failure(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def command(script: str) -> None:
        monkeypatch.setattr(gitbug_java, "maven_command", lambda *given: ["sh", "-c", script])

    command("exit 127")
    with pytest.raises(SandboxUnavailable, match="the sandbox has no maven"):
        run_project_tests(sandbox, "maven", IDS, 60)
    command("echo Scanning; exit 127")
    results = run_project_tests(sandbox, "maven", IDS, 60)
    assert set(results.statuses.values()) == {TestStatus.MISSING}


def test_reports_that_can_not_be_removed_are_told(sandbox: Sandbox) -> None:
    folder = "m/target/surefire-reports"
    sandbox.write_files({f"{folder}/TEST-a.B.xml": REPORT.encode()})
    # `find -L` fails of such a link, which is no reason to fail.
    sandbox.run(Command(["ln", "-s", ".", "loop"]))
    sandbox.run(Command(["chmod", "555", folder]))
    with pytest.raises(SandboxFileError, match=r"(?s)earlier test runs: .*TEST-a\.B\.xml"):
        remove_reports(sandbox)
    sandbox.run(Command(["chmod", "755", folder]))
    remove_reports(sandbox)
    assert read_reports(sandbox) == {}


@pytest.mark.skipif(not DATA.is_dir(), reason="no GitBug-Java records; set STEPINTO_GITBUG_JAVA")
def test_every_published_record(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    records = read_records(DATA, None, None)
    bugs = {bug.id: bug for bug in GitBugJavaBenchmark(DATA).instances()}
    assert len(records) == len(bugs) == 10
    for name, bug in bugs.items():
        known = records[name]
        before, after = worst_by_id(known.tests_before), worst_by_id(known.tests_after)
        assert bug.fail_to_pass, name
        assert {before[test] for test in bug.fail_to_pass} == {TestStatus.FAILED}, name
        # Upstream expects every test of the last run that was not skipped.
        expected = {t for t, status in after.items() if status is not TestStatus.SKIPPED}
        assert {*bug.fail_to_pass, *bug.pass_to_pass} == expected, name
        assert not {*bug.fail_to_pass} & {*bug.pass_to_pass}
        assert bug.gold_patch == known.bug_patch
        assert all(test in bug.problem_statement for test in bug.fail_to_pass)
        assert known.build_tool in ("maven", "gradle")
    failed = {bug.repository: len(bug.fail_to_pass) for bug in bugs.values()}
    assert failed["Netflix/frigga"] == 3
    [without_test_patch] = [r for r in records.values() if r.strategy == "FAIL_PASS"]
    assert without_test_patch.patches == ()
    config = tmp_path / "run.yaml"
    benchmark = {"name": "gitbug_java", "language": "java", "path": str(DATA)}
    config.write_text(json.dumps({"run": "r", "collect": {"benchmark": benchmark}}))
    assert stepinto.main(["bench", "list", str(config)]) == 0
    assert "Netflix-frigga-126b52a55863" in capsys.readouterr().out
