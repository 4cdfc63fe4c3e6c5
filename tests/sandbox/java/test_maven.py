"""Projects built by Maven, offline."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox import Command
from sandbox.errors import BuildFailed
from sandbox.java.build import built_test, needs_fork
from sandbox.java.maven import DEBIAN_SETTINGS, LOG, maven_options, project_of, read_log
from sandbox.java.project import BuildKind, Module
from tests.sandbox.java.conftest import Lay, require_program, run_tests, statuses, write
from tests.sandbox.java.programs import CALC, MAIN, MAVEN, MODULES, TEST

MODULE = Module(BuildKind.MAVEN, ".", ".")


@pytest.fixture(autouse=True)
def _maven() -> None:
    require_program("javac")
    require_program("mvn")


@pytest.mark.slow
def test_one_build_tells_all_and_later_ones_are_incremental(lay_out: Lay) -> None:
    box = lay_out(MAVEN)
    found, project = built_test(box, "mvn test -Dtest=CalcTest#testTotal")
    assert found.selector == "demo.CalcTest#testTotal"
    assert project.class_path[:2] == ("/workspace/target/test-classes", "/workspace/target/classes")
    assert any("junit" in path for path in project.class_path)
    assert project.source_roots == ("/workspace/src/main/java", "/workspace/src/test/java")
    assert project.environment == {"ZONE": "north"}
    assert {"-Xmx200m", "-Dgiven=by-line", "-ea", "-Dtwo=2", "-Dplace=/workspace/target"} <= {
        *project.jvm_options
    }
    assert statuses(run_tests(box, "CalcTest")[1]) == {
        "demo.CalcTest#testTotal": "failed",
        "demo.CalcTest#testEmpty": "passed",
    }
    # From here on javac itself is enough, and Maven is not asked.
    asked = box.run(Command(["stat", "-c", "%y", LOG])).output
    write(box, {MAIN: CALC.replace("sum + 1", "sum")})
    assert built_test(box, "CalcTest")[1] is project
    assert statuses(run_tests(box, "CalcTest#testTotal")[1]) == {
        "demo.CalcTest#testTotal": "passed"
    }
    write(box, {MAIN: CALC.replace("sum + 1", "sums")})
    with pytest.raises(BuildFailed, match=r"src/main/java/demo/Calc\.java:9: cannot find symbol"):
        built_test(box, "CalcTest")
    assert box.run(Command(["stat", "-c", "%y", LOG])).output == asked
    # What somebody has cleaned or compiled since is not taken for built.
    write(box, {MAIN: CALC})
    built_test(box, "CalcTest")
    box.run(Command(["rm", "-r", "target"]))
    assert statuses(run_tests(box, "CalcTest#testEmpty")[1]) == {
        "demo.CalcTest#testEmpty": "passed"
    }
    # A build file that changes asks for Maven again.
    write(box, {"pom.xml": MAVEN["pom.xml"].replace("by-line", "anew")})
    assert "-Dgiven=anew" in built_test(box, "CalcTest")[1].jvm_options


@pytest.mark.slow
def test_a_failing_build_shows_the_compilers_errors(lay_out: Lay) -> None:
    box = lay_out({**MAVEN, TEST: MAVEN[TEST].replace("Calc.total", "Calc.sum")})
    with pytest.raises(BuildFailed) as raised:
        built_test(box, "CalcTest")
    assert str(raised.value).splitlines()[1:3] == [
        "src/test/java/demo/CalcTest.java:10: cannot find symbol; "
        "symbol: method sum(int[]); location: class demo.Calc",
        "    assertEquals(6, Calc.sum(new int[] {1, 2, 3}));",
    ]
    write(box, {**MAVEN, "pom.xml": MAVEN["pom.xml"].replace("4.13.2", "77.7")})
    with pytest.raises(BuildFailed, match=r"junit:junit:jar:77\.7"):
        built_test(box, "CalcTest")


@pytest.mark.slow
def test_of_many_modules_only_those_needed_are_built(lay_out: Lay) -> None:
    box = lay_out(MODULES)
    _, project = built_test(box, "demo.CalcTest")
    assert project.module == Module(BuildKind.MAVEN, ".", "app")
    assert project.folder == "/workspace/app"
    assert "/workspace/core/target/classes" in project.class_roots
    assert "/workspace/core/src/main/java" in project.source_roots
    assert not needs_fork(project, built_test(box, "demo.CalcTest")[0])
    assert statuses(run_tests(box, "demo.CalcTest")[1]) == {
        "demo.CalcTest#testOne[1] 1, 2": "passed",
        "demo.CalcTest#testOne[2] 4, 5": "passed",
        "demo.CalcTest$Empty#testTotal": "failed",
    }
    write(box, {f"core/{MAIN}": CALC.replace("sum + 1", "sum + 2")})
    outcome = statuses(run_tests(box, "demo.CalcTest#testOne")[1])
    assert set(outcome.values()) == {"failed"}, "the other module's change is not seen"


def test_configured_options_stand_in_for_the_automatic_ones(lay_out: Lay) -> None:
    box = lay_out(MAVEN, java={"maven_options": ["-o", "-s", "/nowhere.xml"]})
    with pytest.raises(BuildFailed, match=r"settings file does not exist: /nowhere\.xml"):
        built_test(box, "CalcTest")


def test_a_maven_that_does_not_start_says_why(lay_out: Lay) -> None:
    box = lay_out({**MAVEN, ".mvn/jvm.config": "-XX:+NoSuchThing"})
    with pytest.raises(BuildFailed, match="Unrecognized VM option 'NoSuchThing'"):
        built_test(box, "CalcTest")


def test_a_repository_that_the_sandbox_may_read(lay_out: Lay, tmp_path: Path) -> None:
    (tmp_path / "repository" / "org").mkdir(parents=True)
    tmp_path.chmod(0o755)
    options = maven_options(lay_out({}, readable_paths=[str(tmp_path)]))
    assert f"-Dmaven.repo.local={tmp_path}/repository" in options
    assert "-s" in maven_options(lay_out({})) or not Path(DEBIAN_SETTINGS).exists()


DEBUG_LOG = """\
[DEBUG] Configuring mojo 'org.apache.maven.plugins:maven-compiler-plugin:3.10.1:compile' with basic
[DEBUG]   (f) outputDirectory = /w/target/classes
[DEBUG]   (f) compileSourceRoots = [/w/src/main/java]
[DEBUG]   (f) project = MavenProject: demo:demo:1.0 @ /w/pom.xml
[DEBUG] Configuring mojo 'org.apache.maven.plugins:maven-compiler-plugin:3.1:testCompile' with basic
[DEBUG]   (f) outputDirectory = /w/target/test-classes
[DEBUG]   (f) compileSourceRoots = [/w/src/test/java]
[DEBUG]   (f) testPath = [/w/target/test-classes, /w/target/classes, /r/junit.jar]
[DEBUG]   (f) project = MavenProject: demo:demo:1.0 @ /w/pom.xml
[DEBUG] Command line options:
[DEBUG] -d /w/target/classes -classpath /w/target/classes: -g
--
[DEBUG] Command line options:
[DEBUG] -d /w/target/test-classes -classpath /w/target/test-classes:/w/target/classes -g
"""
WEAVER = """\
[DEBUG] Configuring mojo 'org.codehaus.mojo:aspectj-maven-plugin:1.14:compile' with basic
[DEBUG]   (f) project = MavenProject: demo:demo:1.0 @ /w/pom.xml
"""


@pytest.mark.parametrize(
    ("log", "steps"),
    [
        (DEBUG_LOG, 2),
        (DEBUG_LOG.replace("-d /w/target/classes", "-d /elsewhere"), 0),
        (DEBUG_LOG + WEAVER, 0),
        (DEBUG_LOG + "generated ./target/generated-sources/annotations/A.java\n", 0),
        (
            DEBUG_LOG.replace(
                "  (f) testPath", "  (f) testExcludes = [**/X*]\n[DEBUG]   (f) testPath"
            ),
            0,
        ),
        (
            DEBUG_LOG.replace(
                "  (f) testPath", "  (f) compilerId = eclipse\n[DEBUG]   (f) testPath"
            ),
            0,
        ),
    ],
)
def test_javac_stands_in_only_where_it_is_all_that_made_the_classes(log: str, steps: int) -> None:
    project = project_of(read_log(log), "/w", MODULE)
    assert project.class_path == ("/w/target/test-classes", "/w/target/classes", "/r/junit.jar")
    assert len(project.steps) == steps


def test_what_another_plugin_would_have_filled_in_is_left_out() -> None:
    line = "(s) argLine = @{argLine} -Xss2m ${agent} '-Dtwo=a b'"
    surefire = (
        f"[DEBUG] Configuring mojo 'a:maven-surefire-plugin:2:test' with basic\n[DEBUG]   {line}"
    )
    of = "\n[DEBUG]   (s) project = MavenProject: demo:demo:1.0 @ /w/pom.xml\n"
    project = project_of(read_log(DEBUG_LOG + surefire + of), "/w", MODULE)
    assert project.jvm_options == ("-Xss2m", "-Dtwo=a b", "-ea", "-Dbasedir=/w")


def test_a_log_without_test_classes_leaves_the_build_tools_fork() -> None:
    project = project_of(read_log(""), "/w", MODULE)
    assert project.class_path == ()
    assert project.class_roots == ("/w/target/classes", "/w/target/test-classes")
