"""The JDK found in a sandbox, or what is said where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox import Command, Sandbox
from sandbox.errors import JavaUnavailable
from sandbox.java.jdk import Jdk, choose_jdk, find_jdk, release_of, why_not_compiled
from tests.sandbox.java.conftest import Lay, require_program

HOME = "/workspace/jdk"
RUNTIME = {f"{HOME}/bin/java": "#!/bin/sh\n", f"{HOME}/release": 'JAVA_VERSION="1.8.0_402"\n'}
COMPILER = {f"{HOME}/bin/javac": "#!/bin/sh\n"}


def jdk_of(lay_out: Lay, files: dict[str, str]) -> Jdk:
    box: Sandbox = lay_out(files, java={"java_home": HOME})
    box.run(Command(["sh", "-c", f"chmod +x {HOME}/bin/*"]))
    return find_jdk(box)


def test_the_machines_own(lay_out: Lay) -> None:
    require_program("javac")
    box = lay_out({})
    jdk = find_jdk(box)
    real = str(Path("/usr/bin/javac").resolve().parent.parent)
    assert jdk.home == real or not Path("/usr/bin/javac").exists()
    assert jdk.feature >= 8
    version = box.run(Command([jdk.java, "-version"])).output
    assert jdk.version in version
    assert find_jdk(box) is jdk


def test_java_8_keeps_its_debugger_apart(lay_out: Lay) -> None:
    jdk = jdk_of(lay_out, {**RUNTIME, **COMPILER, f"{HOME}/lib/tools.jar": ""})
    assert jdk == Jdk(HOME, "1.8.0_402", f"{HOME}/lib/tools.jar")
    assert jdk.feature == 8


def test_a_runtime_is_not_enough(lay_out: Lay) -> None:
    with pytest.raises(JavaUnavailable, match=r"only a Java runtime \(1.8.0_402\).*java_home"):
        jdk_of(lay_out, RUNTIME)


def test_too_old_and_not_there(lay_out: Lay) -> None:
    old = {**RUNTIME, **COMPILER, f"{HOME}/release": 'JAVA_VERSION="1.7.0"\n'}
    with pytest.raises(JavaUnavailable, match=r"Java 1\.7\.0; 8 is the oldest"):
        jdk_of(lay_out, old)
    with pytest.raises(JavaUnavailable, match=rf"no Java in sandbox.java.java_home \({HOME}\)"):
        jdk_of(lay_out, {})


def test_versions() -> None:
    told = {"17.0.15": 17, "1.8.0_402": 8, "21": 21, "22-ea": 22, "": 0}
    assert {version: Jdk("/jdk", version).feature for version in told} == told


@pytest.mark.parametrize(
    ("release", "home"),
    [(None, "b"), (8, "b"), (17, "b"), (18, "c"), (21, "c"), (25, "d"), (6, "a"), (99, "b")],
)
def test_the_first_jdk_that_compiles_for_the_release(release: int | None, home: str) -> None:
    jdks = [Jdk("b", "17.0.1"), Jdk("d", "25"), Jdk("a", "1.8.0_402"), Jdk("c", "21.0.2")]
    assert choose_jdk(jdks, release).home == home


@pytest.mark.parametrize(
    ("gradle", "release", "home"),
    [
        ("", 8, "b"),
        ("/cache/gradle-8.10.1", 8, "b"),
        ("/cache/gradle-7.2", 8, "c"),
        ("/cache/gradle-6.0.1/", 8, "c"),
        ("/cache/gradle-4.10", 8, "a"),
        ("/cache/gradle-8.4", 21, "d"),
        ("/cache/gradle-8.5", 21, "d"),
        ("/cache/gradle-9.9", 25, "e"),
        ("/cache/gradle-8.5", 25, "e"),
        ("/cache/gradle-8.4", 99, "b"),
        ("/opt/gradle", 8, "b"),
    ],
)
def test_the_first_jdk_that_runs_the_projects_gradle(gradle: str, release: int, home: str) -> None:
    versions = {"b": "17.0.1", "d": "21", "e": "25", "c": "11.0.2", "a": "1.8.0_402"}
    jdks = [Jdk(name, version) for name, version in versions.items()]
    assert choose_jdk(jdks, release, gradle).home == home


def test_what_is_said_if_no_jdk_compiles_for_the_release() -> None:
    jdk = Jdk("/jdk", "17.0.1")
    assert "for Java 6, and the JDK here, /jdk (17.0.1)" in why_not_compiled(jdk, 6)
    assert "install JDK 11 or earlier" in why_not_compiled(jdk, 6)
    assert "install JDK 21 or later" in why_not_compiled(jdk, 21)
    assert [why_not_compiled(jdk, release) for release in (None, 7, 8, 17)] == [""] * 4


@pytest.mark.parametrize(
    ("path", "text", "release"),
    [
        ("pom.xml", "<maven.compiler.release>21</maven.compiler.release>", 21),
        ("pom.xml", "<project.build.targetJdk>25</project.build.targetJdk>", 25),
        (
            "pom.xml",
            "<java.version>17</java.version><javassist.version>3.30</javassist.version>",
            17,
        ),
        ("core/pom.xml", "<source>1.8</source> <target>${x}</target>", 8),
        ("pom.xml", "<release>8</release><profiles><release>21</release></profiles>", 8),
        ("src/test/resources/pom.xml", "<release>21</release>", None),
        ("build.gradle.kts", "languageVersion = JavaLanguageVersion.of(17)", 17),
        ("build.gradle", "sourceCompatibility = '1.8'\ntargetCompatibility 11", 11),
        ("build.gradle", "sourceCompatibility = JavaVersion.VERSION_1_8", 8),
        ("app/build.gradle", "options.release.set(11)", 11),
        ("pom.xml", "<release>" + "9" * 5000 + "</release>", None),
        ("README.md", "<release>21</release>", None),
    ],
)
def test_the_release_that_build_files_name(path: str, text: str, release: int | None) -> None:
    assert release_of({path: text.encode()}) == release


def test_a_newer_jdk_for_a_newer_release(lay_out: Lay) -> None:
    machines = {
        jdk.resolve() for jdk in Path("/usr/lib/jvm").glob("*") if (jdk / "bin/javac").exists()
    }
    newest = max(
        (find_jdk(lay_out({}, java={"java_home": str(jdk)})) for jdk in machines),
        key=lambda jdk: jdk.feature,
    )
    assert find_jdk(lay_out({}, java={"release": newest.feature})).feature == newest.feature
