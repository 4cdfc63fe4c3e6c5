"""Projects built by Gradle, offline."""

from __future__ import annotations

import pytest

from sandbox import Command
from sandbox.errors import BuildFailed
from sandbox.java.build import built_test
from sandbox.java.project import BuildKind, Module
from tests.sandbox.java.conftest import Lay, require_program, run_tests, statuses, write
from tests.sandbox.java.programs import CALC, GRADLE, MAIN


@pytest.fixture(autouse=True)
def _gradle() -> None:
    require_program("javac")
    require_program("gradle")


def test_a_module_with_what_it_needs(lay_out: Lay) -> None:
    box = lay_out(GRADLE)
    found, project = built_test(box, "gradle :app:test --tests demo.CalcTest.testTotal")
    assert found.selector == "demo.CalcTest#testTotal"
    assert project.module == Module(BuildKind.GRADLE, ".", "app")
    assert project.folder == "/workspace/app"
    assert "/workspace/core/build/classes/java/main" in project.class_roots
    assert "/workspace/app/build/resources/test" in project.class_path
    assert {"-Dgiven=by-gradle", "-Xmx200m", "-ea"} <= {*project.jvm_options}
    assert project.environment == {"ZONE": "north"}
    assert statuses(run_tests(box, found.selector)[1]) == {"demo.CalcTest#testTotal": "failed"}
    assert "gradle" not in box.run(Command(["ps", "-e", "-o", "args"])).output.casefold()
    # A change of another module's source needs no Gradle any more.
    write(box, {f"core/{MAIN}": CALC.replace("sum + 1", "sum")})
    assert built_test(box, "demo.CalcTest")[1] is project
    assert statuses(run_tests(box, found.selector)[1]) == {"demo.CalcTest#testTotal": "passed"}


@pytest.mark.slow
def test_a_failing_build_shows_the_compilers_errors(lay_out: Lay) -> None:
    box = lay_out({**GRADLE, f"core/{MAIN}": CALC.replace("sum + 1", "sums")})
    with pytest.raises(BuildFailed) as raised:
        built_test(box, "demo.CalcTest")
    assert str(raised.value).splitlines()[1:] == [
        "core/src/main/java/demo/Calc.java:9: cannot find symbol; "
        "symbol: variable sums; location: class Calc",
        "    return sums;",
    ]


@pytest.mark.slow
def test_a_source_that_names_our_script_is_a_source_with_an_error(lay_out: Lay) -> None:
    wrong = 'String script = "describe.gradle"; return sums;'
    box = lay_out({**GRADLE, f"core/{MAIN}": CALC.replace("return sum + 1;", wrong)})
    with pytest.raises(BuildFailed) as raised:
        built_test(box, "demo.CalcTest")
    assert raised.value.in_sources


@pytest.mark.slow
def test_a_failing_build_names_the_gradle_that_its_wrapper_asks_for(lay_out: Lay) -> None:
    wrapper = {"gradle/wrapper/gradle-wrapper.properties": "distributionUrl=x/gradle-8.5-bin.zip"}
    box = lay_out({**GRADLE, **wrapper, "settings.gradle": "plugins { id 'org.example' }"})
    with pytest.raises(BuildFailed) as raised:
        built_test(box, "demo.CalcTest")
    reason, *rest = str(raised.value).splitlines()[1:]
    assert "asks for gradle-8.5" in reason
    assert reason.endswith("set sandbox.java.gradle_home")
    assert any("settings file" in line for line in rest)


@pytest.mark.slow
def test_what_the_compiler_says_of_its_options_and_which_jdk_is_wanted(lay_out: Lay) -> None:
    old = GRADLE["build.gradle"].replace("sourceCompatibility = 8", "sourceCompatibility = 5")
    box = lay_out({**GRADLE, "build.gradle": old}, java={"release": 5})
    with pytest.raises(BuildFailed) as raised:
        built_test(box, "demo.CalcTest")
    reason, *rest = str(raised.value).splitlines()[1:]
    assert "written for Java 5" in reason
    assert "install JDK 8 or earlier" in reason
    assert any(line.startswith("error: Source option 5 is no longer") for line in rest)
