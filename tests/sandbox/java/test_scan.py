"""What is seen of a workspace's files, and of their changes."""

from __future__ import annotations

from sandbox import Command
from sandbox.java.project import is_build_file, scan_workspace
from tests.sandbox.conftest import OpenSandbox
from tests.sandbox.java.conftest import Lay, write

FILES = {
    "pom.xml": "",
    "src/main/java/build/Own.java": "",
    "target/Made.java": "",
    "sub/build/made.txt": "",
    ".git/config": "",
    "two words.txt": "",
    "Gone.class": "",
}


def test_outputs_are_left_out_and_packages_of_such_names_are_not(lay_out: Lay) -> None:
    seen = scan_workspace(lay_out(FILES))
    assert set(seen.stamps) == {"pom.xml", "src/main/java/build/Own.java", "two words.txt"}
    assert seen.sources == ["src/main/java/build/Own.java"]


def test_a_build_below_the_workspace(lay_out: Lay) -> None:
    box = lay_out({"repo/pom.xml": "", "repo/target/A.java": "", "repo/src/B.java": ""})
    assert scan_workspace(box).sources == ["repo/src/B.java"]


def test_many_files_and_no_change(lay_out: Lay) -> None:
    box = lay_out({f"src/p{n}/File{n}.java": "" for n in range(400)}, output_limit=2_000)
    seen = scan_workspace(box)
    assert len(seen.sources) == 400
    assert scan_workspace(box, seen) == seen
    write(box, {"src/p1/File1.java": "class File1 {}"})
    assert scan_workspace(box, seen).changed(seen) == {"src/p1/File1.java"}


def test_classes_are_told_apart(lay_out: Lay) -> None:
    box = lay_out({"one/A.class": "1", "two words/B.class": "2"})
    roots = [("/workspace/one",), ("/workspace/two words", "/workspace/none")]
    before = scan_workspace(box, outputs=roots).outputs
    assert scan_workspace(box, outputs=roots).outputs == before
    write(box, {"two words/B.class": "3"})
    after = scan_workspace(box, outputs=roots).outputs
    assert [after[each] == before[each] for each in roots] == [True, False]


def test_without_a_build_file_every_folder_counts(lay_out: Lay) -> None:
    assert scan_workspace(lay_out({"target/A.java": "", "out/B.java": ""})).sources == [
        "out/B.java",
        "target/A.java",
    ]


def test_an_edit_of_the_same_size_within_the_second_is_a_change(open_backend: OpenSandbox) -> None:
    box = open_backend()
    write(box, {"A.java": "int a = 1;", "B.java": ""})
    before = scan_workspace(box)
    assert not scan_workspace(box).changed(before)
    write(box, {"A.java": "int a = 2;"})
    # A time that is set back hides nothing.
    box.run(Command(["touch", "-r", "B.java", "A.java"]))
    box.run(Command(["rm", "B.java"]))
    assert scan_workspace(box).changed(before) == {"A.java", "B.java"}


def test_build_files() -> None:
    steering = ["pom.xml", "a/build.gradle.kts", "lib/x.jar", ".mvn/jvm.config", "buildSrc/A.java"]
    assert all(map(is_build_file, steering))
    assert not any(map(is_build_file, ["src/main/java/A.java", "README.md"]))
