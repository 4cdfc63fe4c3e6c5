"""The JDK found in a sandbox, or what is said where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox import Command, Sandbox
from sandbox.errors import JavaUnavailable
from sandbox.java.jdk import Jdk, find_jdk
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
