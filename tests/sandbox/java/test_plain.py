"""Projects without a build file."""

from __future__ import annotations

import pytest

from sandbox import Command
from sandbox.errors import BuildFailed
from sandbox.java.build import built_test
from tests.sandbox.java.conftest import Lay, require_program, run_tests, statuses, write
from tests.sandbox.java.programs import CALC, CALC_TEST

MAIN = "public class Main { public static void main(String[] args) { %s } }"


@pytest.fixture(autouse=True)
def _jdk() -> None:
    require_program("javac")


@pytest.mark.slow
def test_sources_of_several_roots_and_a_framework_of_the_machine(lay_out: Lay) -> None:
    box = lay_out({"src/demo/Calc.java": CALC, "test/demo/CalcTest.java": CALC_TEST})
    found, project = built_test(box, "CalcTest#testEmpty")
    assert project.source_roots == ("/workspace/src", "/workspace/test")
    assert project.class_roots == (project.class_path[0],)
    code, lines, _ = run_tests(box, found.selector)
    assert (code, statuses(lines)) == (0, {"demo.CalcTest#testEmpty": "passed"})
    assert box.run(Command(["find", ".", "-name", "*.class"])).output == ""


@pytest.mark.slow
def test_built_again_only_after_a_change(lay_out: Lay) -> None:
    box = lay_out({"Main.java": MAIN % "System.out.println(1);"})
    first = built_test(box, "Main")[1]
    write(box, {"notes.txt": "what a run leaves behind"})
    assert built_test(box, "Main")[1] is first
    write(box, {"Main.java": MAIN % "System.out.println(2);"})
    assert built_test(box, "Main")[1] is not first
    write(box, {"Main.java": MAIN % 'int x = "y"; foo();'})
    for _ in range(2):
        with pytest.raises(BuildFailed, match=r"Main\.java:1: incompatible types") as raised:
            built_test(box, "Main")
        assert 'int x = "y"' in str(raised.value)


@pytest.mark.slow
def test_a_deleted_class_is_missed(lay_out: Lay) -> None:
    box = lay_out({"Main.java": MAIN % "Helper.help();", "Helper.java": HELPER})
    built_test(box, "Main")
    box.run(Command(["rm", "Helper.java"]))
    with pytest.raises(BuildFailed, match="symbol: variable Helper"):
        built_test(box, "Main")


HELPER = "class Helper { static void help() {} }"


@pytest.mark.slow
def test_files_that_do_not_compile_together(lay_out: Lay) -> None:
    """A heap of programs: each its own `Main`, one of them broken."""
    box = lay_out(
        {
            "a/Main.java": MAIN % "Helper.help();",
            "a/Helper.java": HELPER,
            "b/Main.java": MAIN % "int x = 1;",
            "c/Broken.java": MAIN.replace("Main", "Broken") % "int x = ;",
        }
    )
    for folder in "ab":
        found, project = built_test(box, f"{folder}/Main.java")
        assert found.file == f"{folder}/Main.java"
        ran = box.run(Command(["java", "-cp", ":".join(project.class_path), "Main"]))
        assert ran.exit_code == 0, ran.output
    with pytest.raises(BuildFailed, match=r"c/Broken\.java:1: illegal start"):
        built_test(box, "Broken")


@pytest.mark.slow
def test_builds_that_take_too_long_end(lay_out: Lay) -> None:
    methods = "".join(f"int m{n}() {{ return {n} + hashCode(); }}\n" for n in range(20_000))
    main = "public static void main(String[] args) {}"
    box = lay_out({"Main.java": f"class Main {{\n{methods}{main} }}"})
    with pytest.raises(BuildFailed, match="build_timeout"):
        built_test(box, "Main", timeout=0)
