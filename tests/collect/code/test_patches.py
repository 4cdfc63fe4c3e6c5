from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collect.code.patches import (
    BINARY_NOTE,
    LARGE_FILE,
    ChangedRange,
    Edit,
    PatchError,
    PatchTooLarge,
    apply_patch,
    changed_lines,
    changed_paths,
    diff_trees,
    drop_paths,
    hunk_edits,
    outside,
    reverse_patch,
)

PATHS = st.sampled_from(
    ["a.py", "pkg/b.py", "with space.txt", "a b/c.txt", 'quo"te\\.txt', "tab\there", "naïve.md",
     "no utf-8 \udcff.py", "line\u2028end", "\x85", "new\nline"]
)  # fmt: skip
LINES = st.sampled_from(
    ["x = 1", "y = 2", "", "--- a", "+++ b", "@@ -1 +1 @@", " z", "\\ No", "w\r", "\x0c", "\u2028"]
)
TEXTS = st.builds(
    lambda lines, end: ("\n".join(lines) + end).encode(),
    st.lists(LINES, max_size=12),
    st.sampled_from(["", "\n"]),
)
TREES = st.dictionaries(PATHS, TEXTS, max_size=4)


def edited(files: dict[str, bytes], edits: list[Edit]) -> dict[str, bytes]:
    """What an exact-replacement edit tool makes of the edits."""
    result = dict(files)
    for edit in edits:
        text = result.get(edit.path, b"").decode()
        if edit.old:
            assert text.count(edit.old) == 1
            result[edit.path] = text.replace(edit.old, edit.new).encode()
        else:
            assert text == ""
            result[edit.path] = edit.new.encode()
    return result


@given(TREES, TREES)
@settings(max_examples=200)
def test_a_diff_applies_and_reverses_exactly(
    before: dict[str, bytes], after: dict[str, bytes]
) -> None:
    patch = diff_trees(before, after)
    assert apply_patch(before, patch) == after
    assert apply_patch(after, reverse_patch(patch)) == before
    assert reverse_patch(reverse_patch(patch)) == patch


@given(TREES, TREES)
@settings(max_examples=200)
def test_edits_do_what_the_patch_does(before: dict[str, bytes], after: dict[str, bytes]) -> None:
    after = {**dict.fromkeys(before, b""), **after}
    assert edited(before, hunk_edits(before, diff_trees(before, after))) == after


def git_apply(folder: Path, files: dict[str, bytes], patch: str) -> dict[str, bytes]:
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    subprocess.run(
        ["git", "apply", "--whitespace=nowarn", "-"],
        input=patch.encode(),
        cwd=folder,
        check=True,
        timeout=30,
        env={"GIT_DIR": str(folder / ".none"), "PATH": "/usr/bin:/bin"},
    )
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


BEFORE = {
    "changed.py": b"".join(b"line %d\n" % number for number in range(40)),
    "deleted.py": b"gone\n",
    "deleted_empty.py": b"",
    "emptied.py": b"one\ntwo\n",
    "no_newline.txt": b"a\nb",
    "gets_newline.txt": b"a\nb",
    "with space/b/c.txt": b"1\n",
    "crlf.txt": b"a\r\nb\r\n",
    "image.png": b"\x89PNG\xff",
}
AFTER = {
    "changed.py": BEFORE["changed.py"].replace(b"line 3\n", b"").replace(b"line 30\n", b"x\ny\n"),
    "new.py": b"new\n",
    "new_empty.py": b"",
    "emptied.py": b"",
    "no_newline.txt": b"a\nc",
    "gets_newline.txt": b"a\nb\n",
    "with space/b/c.txt": b"2\n",
    "crlf.txt": b"a\r\nc\r\n",
    "tab\tand\"quote'.txt": b"q\n",
    "na\u00efve.md": b"\xc3\xa9\n",
    "image.png": b"\x89PNG\xfe",
}


def test_git_applies_the_patch(tmp_path: Path) -> None:
    patch = diff_trees(BEFORE, AFTER)
    assert git_apply(tmp_path, BEFORE, patch) == {**AFTER, "image.png": BEFORE["image.png"]}


def test_a_patch_made_by_git_applies(tmp_path: Path) -> None:
    for name, tree in (("old", BEFORE), ("new", AFTER)):
        for path, data in tree.items():
            if path != "image.png":
                (tmp_path / name / path).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / name / path).write_bytes(data)
    argv = ["git", "diff", "--no-index", "--no-renames", "--src-prefix=a/", "--dst-prefix=b/"]
    done = subprocess.run(
        [*argv, "old", "new"], cwd=tmp_path, capture_output=True, timeout=30, check=False
    )
    patch = done.stdout.decode().replace("a/old/", "a/").replace("b/new/", "b/")
    patch = patch.replace("a/new/", "a/").replace("b/old/", "b/")
    assert apply_patch(BEFORE, patch) == {**AFTER, "image.png": BEFORE["image.png"]}


def test_binary_files_are_named_and_left_alone() -> None:
    patch = diff_trees({"x.bin": b"\xff", "a.py": b"1\n"}, {"x.bin": b"\xfe", "a.py": b"2\n"})
    assert patch.startswith(BINARY_NOTE + "x.bin\n")
    assert apply_patch({"x.bin": b"\xff", "a.py": b"1\n"}, patch)["x.bin"] == b"\xff"


def test_large_files_are_named_and_left_alone() -> None:
    large = b"line\n" * (LARGE_FILE // 5 + 1)
    patch = diff_trees({"a.py": b"1\n"}, {"a.py": b"2\n", "log.txt": large})
    assert patch.startswith(BINARY_NOTE + "log.txt\n")
    assert apply_patch({"a.py": b"1\n"}, patch) == {"a.py": b"2\n"}
    assert changed_paths(patch) == {"a.py"}


def test_dropping_many_paths_takes_no_longer_than_reading_them() -> None:
    """How many files are left out of a patch depends on what a model leaves."""
    paths = [f"statistics/part{number}.py" for number in range(10_000)]
    patch = diff_trees({}, dict.fromkeys(paths, b""))
    began = time.process_time()
    assert drop_paths(patch, paths) == ""
    assert outside(dict.fromkeys(paths, b""), paths) == {}
    assert time.process_time() - began < 20


def test_drop_paths_takes_whole_names_only() -> None:
    before = {"tests/test_a.py": b"1\n", "tests_extra.py": b"1\n", "tests/x.bin": b"\xff"}
    after = {"tests/test_a.py": b"2\n", "tests_extra.py": b"2\n", "tests/x.bin": b"\xfe"}
    kept = drop_paths(diff_trees(before, after), ["tests"])
    assert apply_patch(before, kept) == {**before, "tests_extra.py": b"2\n"}
    assert BINARY_NOTE not in kept
    assert drop_paths(kept, ["tests_extra.py"]) == ""


def test_changed_lines() -> None:
    numbers = [f"{number}\n" for number in range(1, 31)]
    changed = [*numbers]
    changed[19] = "twenty\n"
    del changed[9:11]
    changed.insert(4, "inserted\n")
    before = {"a.py": "".join(numbers).encode()}
    after = {"a.py": "".join(changed).encode(), "new.py": b"1\n"}
    assert changed_lines(diff_trees(before, after)) == [
        ChangedRange("a.py", 4, 5, insertion=True),
        ChangedRange("a.py", 10, 11),
        ChangedRange("a.py", 20, 20),
    ]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (b"1\n2\n", b"0\n1\n2\n", ChangedRange("a", 1, 1, insertion=True)),
        (b"1\n2\n", b"1\n2\n3\n", ChangedRange("a", 2, 2, insertion=True)),
    ],
)
def test_insertions_at_the_ends_stay_in_the_file(
    before: bytes, after: bytes, expected: ChangedRange
) -> None:
    assert changed_lines(diff_trees({"a": before}, {"a": after})) == [expected]


def test_a_rename_made_by_git_applies(tmp_path: Path) -> None:
    patch = "diff --git a/a b/b\nsimilarity index 100%\nrename from a\nrename to b\n"
    assert apply_patch({"a": b"1\n"}, patch) == {"b": b"1\n"}
    assert apply_patch({"b": b"1\n"}, reverse_patch(patch)) == {"a": b"1\n"}
    assert git_apply(tmp_path, {"b": b"1\n"}, reverse_patch(patch)) == {"a": b"1\n"}


def test_edits_take_as_little_context_as_is_unique() -> None:
    before = {"a.py": b"def f():\n    return 1\n\ndef g():\n    return 1\n"}
    after = {"a.py": b"def f():\n    return 1\n\ndef g():\n    return 2\n"}
    assert hunk_edits(before, diff_trees(before, after)) == [
        Edit("a.py", "def g():\n    return 1\n", "def g():\n    return 2\n")
    ]


@pytest.mark.parametrize(
    ("files", "patch", "message"),
    [
        (
            {"a": b"2\n"},
            "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+2\n",
            r"a: hunk 1 .at line 1. does not",
        ),
        ({}, "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+2\n", "a: .* no such file"),
        ({"a": b""}, "--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+2\n", "a: .* exists"),
        ({}, "--- /dev/null\n+++ b/../a\n@@ -0,0 +1 @@\n+2\n", "outside"),
        ({}, "--- a/a\n+++ b/a\n@@ -1,5 +1 @@\n-1\n", "not a unified diff"),
        ({"a": b"\xff"}, "Binary files a/a and b/a differ\n", "binary"),
        (
            {"a": b"1\n"},
            "diff --git a/a b/b\nsimilarity index 100%\ncopy from a\ncopy to b\n",
            "b: copies",
        ),
        ({"a": b"1\n2\n"}, "--- a/a\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n", "not all of its lines"),
    ],
)
def test_what_does_not_apply_says_where(files: dict[str, bytes], patch: str, message: str) -> None:
    with pytest.raises(PatchError, match=message):
        apply_patch(files, patch)


def test_line_endings_are_suspected() -> None:
    tree, fixed = {"a.py": b"x = 1\ny = 2\n"}, {"a.py": b"x = 1\ny = 3\n"}
    patch = diff_trees(tree, fixed)
    windows = {"a.py": tree["a.py"].replace(b"\n", b"\r\n")}
    for files, changed in ((windows, patch), (tree, patch.replace("\n", "\r\n"))):
        with pytest.raises(PatchError, match=r"^a\.py: .*only the line endings differ"):
            apply_patch(files, changed)
    assert apply_patch(windows, patch.replace("\n", "\r\n")) == {"a.py": b"x = 1\r\ny = 3\r\n"}


@pytest.mark.slow
@pytest.mark.parametrize("lines", [1000, 300_000])
def test_files_of_equal_lines_are_compared_in_seconds(lines: int) -> None:
    """Each of one file's is like each of the other's: looked at pairwise, the second takes days."""
    source, target = b"x = 1\n\n" * 200, b"y\n" + b"\n" * lines + b"z\n"
    started = time.process_time()
    patch = diff_trees({"a.py": source}, {"a.py": target})
    assert apply_patch({"a.py": source}, patch) == {"a.py": target}
    assert time.process_time() - started < 20


def test_what_such_a_file_begins_and_ends_with_is_no_change() -> None:
    blank = b"\n" * 20_000
    patch = diff_trees({"a": blank + b"x\n" + blank}, {"a": blank + b"y\n" + blank})
    assert patch.splitlines()[3:] == ["@@ -19998,7 +19998,7 @@", *"   ", "-x", "+y", *"   "]


def test_a_patch_of_too_many_lines_is_not_made() -> None:
    with pytest.raises(PatchTooLarge, match="more than 5 lines"):
        diff_trees({}, {"a": b"1\n2\n3\n"}, most_lines=5)
    assert diff_trees({}, {"a": b"1\n"}, most_lines=6)
