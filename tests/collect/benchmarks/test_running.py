from __future__ import annotations

from dataclasses import replace

from collect.benchmarks.base import Instance, Language
from collect.benchmarks.running import build_outputs, runner_files
from collect.code.patches import diff_trees


def bug(language: Language, gold_patch: str = "", *files: str) -> Instance:
    tree = dict.fromkeys(files, b"")
    return Instance("a", "bundled", language, "a", "", (), (), gold_patch, tree)


def adding(*paths: str) -> str:
    return diff_trees({}, dict.fromkeys(paths, b"text\n"))


def test_what_steers_pytest_is_not_the_agents_to_change() -> None:
    made = adding("a/conftest.py", "setup.py", "tox.ini", "conftest_a.py")
    assert runner_files(bug("python"), made) == ["a/conftest.py", "setup.py", "tox.ini"]
    assert runner_files(bug("python", adding("tox.ini")), made) == ["a/conftest.py", "setup.py"]


def test_a_gold_patch_with_a_binary_change_still_names_its_files() -> None:
    gold = "diff --git a/a.png b/a.png\nBinary files a/a.png and b/a.png differ\n"
    known = bug("python", gold + adding("tox.ini"))
    assert runner_files(known, adding("tox.ini", "conftest.py")) == ["conftest.py"]


def test_what_steers_a_java_build_is_not_the_agents_to_change() -> None:
    steering = [
        "core/build.gradle",
        "gradle.properties",
        "pom.xml",
        ".mvn/jvm.config",
        "buildSrc/src/main/java/Plugin.java",
        "src/main/resources/junit-platform.properties",
        "src/main/resources/META-INF/services/org.junit.jupiter.api.extension.Extension",
        "src/main/resources/META-INF/services/org.assertj.core.configuration.Configuration",
        "META-INF/services/javax.annotation.processing.Processor",
        "core/src/main/resources/META-INF/services/com.sun.source.util.Plugin",
        "lib/META-INF/services/org.codehaus.groovy.transform.ASTTransformation",
        "src/main/resources/mockito-extensions/org.mockito.plugins.MockMaker",
    ]
    others = ["src/main/java/shop/Cart.java", "src/main/resources/META-INF/services/shop.Tax"]
    made = adding(*steering, *others)
    assert runner_files(bug("java"), made) == sorted(steering)
    assert "pom.xml" not in runner_files(bug("java", adding("pom.xml")), made)


def test_a_class_in_the_place_of_a_tests_is_not_the_agents_to_add() -> None:
    tests = ("shop.CartTest$Full#total", "CheckTest")
    known = replace(bug("java"), fail_to_pass=tests)
    standing_in = ["aaa/CartTest.java", "src/main/java/shop/CheckTest.java"]
    made = adding(*standing_in, "src/main/java/shop/Cart.java", "src/main/java/shop/Total.java")
    assert runner_files(known, made) == standing_in
    changed = diff_trees({"CheckTest.java": b"a\n"}, {"CheckTest.java": b"b\n"})
    assert runner_files(known, changed) == []
    assert runner_files(replace(known, gold_patch=made), made) == []
    assert runner_files(bug("python"), adding("pom.xml")) == []


def test_the_build_tools_folders_hold_no_changes() -> None:
    java = bug("java", "", "settings.gradle", "core/build.gradle", "core/src/main/java/A.java")
    assert build_outputs(java) == [
        ".gradle",
        "build",
        "core/.gradle",
        "core/build",
        "core/target",
        "target",
    ]
    assert build_outputs(bug("python", "", "setup.py")) == []
