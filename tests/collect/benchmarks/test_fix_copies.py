"""Copies of a fix that an agent could read are found, and what only looks like one is not."""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest

from collect.benchmarks.base import Instance, Language, TestResults, TestStatus
from collect.benchmarks.config import BenchmarkConfig
from collect.benchmarks.copy_search import Gold
from collect.benchmarks.fix_copies import CopySearch, search_copies
from collect.benchmarks.marks import Mark, Verifications, note_verified, verify, verify_instance
from collect.benchmarks.opening import choose_instances
from collect.benchmarks.running import StoredBenchmark
from collect.code.patches import diff_trees
from collect.errors import ConfigError
from sandbox import Command, Sandbox, SandboxConfig
from sandbox.shell import write_bytes
from tests.sandbox.image import TAG

PATH, HIDDEN = "counter/totals.py", "tests/test_hidden.py"
FIXED = b"""\
def total(numbers):
    result = 0
    for number in numbers:
        result += number
    return result


def mean(numbers):
    count = len(numbers)
    return total(numbers) / count


def spread(numbers):
    return max(numbers) - min(numbers)
"""
BUGGY = FIXED.replace(b"result += number", b"result += abs(number)")
OTHER_RELEASE = FIXED.replace(b"count = len(numbers)", b"count = sum(1 for _ in numbers)")
OLDER_RELEASE = OTHER_RELEASE.replace(b"result += number", b"result += abs(number)")
HIDDEN_TEST = b"""\
from counter.totals import total


def test_negative():
    assert total([-1, 1]) == 0
"""
JAVA_PATH = "src/main/java/shop/Cart.java"
JAVA_FIXED = b"""\
package shop;

public class Cart {
    int total(int price, int count) {
        return price * count;
    }
}
"""
JAVA_BUGGY = JAVA_FIXED.replace(b"price * count", b"price + count")
WRITE_BYTE_CODE = """
import importlib.util, marshal, os, sys
path, tagged = sys.argv[1:]
if tagged == "tagged":
    path = importlib.util.cache_from_source(path)
os.makedirs(os.path.dirname(path), exist_ok=True)
code = compile(sys.stdin.buffer.read(), "/made/elsewhere.py", "exec", dont_inherit=True)
with open(path, "wb") as file:
    file.write(importlib.util.MAGIC_NUMBER + bytes(12) + marshal.dumps(code))
"""


@dataclass(eq=False)
class Planted(StoredBenchmark):
    """One bug, in a sandbox that has more files than the bug's own."""

    name: ClassVar[str] = "planted"
    files: Mapping[str, bytes] = field(default_factory=dict)
    """By absolute path, or relative to the workspace."""
    byte_code: Mapping[str, bytes] = field(default_factory=dict)
    """Sources whose byte code is written."""
    script: str = ""
    """Python code that runs in the sandbox."""

    def prepare(self, instance: Instance, sandbox: Sandbox) -> None:
        super().prepare(instance, sandbox)
        for path, data in self.files.items():
            write_bytes(sandbox, path, data)
        for path, source in self.byte_code.items():
            tagged = "plain" if path.endswith(".pyc") else "tagged"
            argv = [sandbox.python, "-I", "-c", WRITE_BYTE_CODE, path, tagged]
            done = sandbox.run(Command(argv, stdin=source))
            assert done.exit_code == 0, done.output
        if self.script:
            done = sandbox.run(Command([sandbox.python, "-I", "-c", self.script]))
            assert done.exit_code == 0, done.output

    def searched(self, bug: Instance, backend: str, **settings: object) -> CopySearch:
        config = {"backend": backend, "image": TAG, **settings}
        return search_copies(self, bug, SandboxConfig.model_validate(config))


def bug(
    path: str = PATH, buggy: bytes = BUGGY, fixed: bytes = FIXED, language: Language = "python"
) -> Instance:
    return Instance(
        id="planted",
        benchmark=Planted.name,
        language=language,
        repository="counter",
        problem_statement="wrong",
        fail_to_pass=(f"{HIDDEN}::test_negative",),
        pass_to_pass=(),
        gold_patch=diff_trees({path: buggy}, {path: fixed}),
        files={path: buggy, "counter/__init__.py": b""},
        hidden_files={HIDDEN: HIDDEN_TEST},
    )


def archive(**members: bytes) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return written.getvalue()


def gold(fixed: bytes = FIXED, buggy: bytes | None = BUGGY, path: str = PATH) -> Gold:
    hunks = [("        result += abs(number)", "        result += number")] if buggy else []
    before = None if buggy is None else buggy.decode("latin-1")
    return Gold({"path": path, "before": before, "after": fixed.decode("latin-1"), "hunks": hunks})


def is_copied(copy: bytes, file: Gold, whole: bool = False) -> bool:
    return file.is_copied_by("/elsewhere/totals.py", copy, whole)


COPIES = {
    "the same": FIXED,
    "CRLF": FIXED.replace(b"\n", b"\r\n"),
    "no last line break": FIXED.rstrip(),
    "blank lines": FIXED.replace(b"\n", b"  \n\n"),
    "a licence": b"# Copyright\n# All rights reserved\n" + FIXED,
}
OTHERS = {
    "the buggy one": BUGGY,
    "the buggy one with CRLF": BUGGY.replace(b"\n", b"\r\n"),
    "an older release": OLDER_RELEASE,
    "a file with the same lines": b"x = 1\ny = 2\n" * 20 + FIXED[:80],
    "nothing": b"",
    "no text": bytes(range(256)),
}


@pytest.mark.parametrize("kind", COPIES)
def test_a_copy_is_told(kind: str) -> None:
    assert is_copied(COPIES[kind], gold(), whole=True)
    assert is_copied(COPIES[kind], gold())


def test_the_hash_in_a_list_of_installed_files_is_told() -> None:
    path = "/site/counter-2.dist-info/RECORD"
    for data, told in ((FIXED, True), (BUGGY, False)):
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        listed = f"counter/__init__.py,,\n{PATH},sha256={digest},{len(data)}\n".encode()
        assert gold().is_copied_by(path, listed, whole=False) is told


@pytest.mark.parametrize("kind", OTHERS)
def test_another_file_is_not(kind: str) -> None:
    assert not is_copied(OTHERS[kind], gold())
    assert not is_copied(OTHERS[kind], gold(HIDDEN_TEST, None, HIDDEN))


def test_another_release_is_a_copy_but_for_a_twin_in_the_workspace() -> None:
    assert is_copied(OTHER_RELEASE, gold())
    assert not is_copied(OTHER_RELEASE, gold(), whole=True)


def test_a_fix_that_only_indents_is_told() -> None:
    buggy = FIXED.replace(b"    return result\n", b"        return result\n")
    hunk = ("        return result", "    return result")
    facts = {"path": PATH, "before": buggy.decode(), "after": FIXED.decode(), "hunks": [hunk]}
    assert is_copied(OTHER_RELEASE, Gold(facts))
    assert not is_copied(buggy, Gold(facts))


def test_a_fix_that_only_removes_is_not_in_the_buggy_file() -> None:
    removed = b"\n\ndef wrong(numbers):\n    return numbers\n"
    buggy = FIXED + removed
    hunk = (f"    return max(numbers) - min(numbers)\n{removed.decode().strip()}", "")
    facts = {"path": PATH, "before": buggy.decode(), "after": FIXED.decode(), "hunks": [hunk]}
    assert not is_copied(buggy, Gold(facts), whole=True)
    assert not is_copied(b"# Copyright\n" + buggy, Gold(facts))
    assert is_copied(FIXED, Gold(facts), whole=True)


@pytest.mark.parametrize("data", [b"", b"VERSION = 1\n", BUGGY + b"\n\n"])
def test_what_tells_nothing_is_not_looked_for(data: bytes) -> None:
    assert not gold(data).is_telling
    assert gold().is_telling


PLANTED = {
    "/tmp/site/counter/totals.py": FIXED,
    "/tmp/cache/5f3a": FIXED.replace(b"\n", b"\r\n"),
    "/tmp/release/_vendor/totals.py": b"# Licence\n" + OTHER_RELEASE,
    "/tmp/tests/test_hidden.py.orig": HIDDEN_TEST,
    "/tmp/wheels/counter-2-py3-none-any.whl": archive(**{PATH: OTHER_RELEASE}),
    "build/lib/counter/totals.py": FIXED,
    "dist/counter-1.zip": archive(**{f"counter-1/{PATH}": FIXED}),
}
BYTE_CODE = {"/tmp/code/totals.py": FIXED, "/tmp/release/totals.pyc": OTHER_RELEASE}
# The machine's own files take seconds to walk; the image has few.
BACKENDS = pytest.mark.parametrize(
    "backend",
    [
        pytest.param("local", marks=pytest.mark.slow),
        pytest.param("docker", marks=pytest.mark.docker),
    ],
    indirect=True,
)


@BACKENDS
def test_every_kind_of_copy_is_found_in_a_sandbox(backend: str) -> None:
    found = Planted(files=PLANTED, byte_code=BYTE_CODE).searched(bug(), backend)
    assert found.unsearched == ""
    workspace = "/workspace/"
    copies = {copy.removeprefix(workspace): path for path, copy in found.copies}
    tagged = next(copy for copy in copies if copy.startswith("/tmp/code/__pycache__/totals."))
    archived = {
        "/tmp/wheels/counter-2-py3-none-any.whl": f"/{PATH}",
        "dist/counter-1.zip": f"/counter-1/{PATH}",
    }
    expected = {path + archived.get(path, ""): PATH for path in [*PLANTED, *BYTE_CODE]}
    del expected["/tmp/code/totals.py"]
    assert copies == {
        **expected,
        tagged: PATH,
        "/tmp/tests/test_hidden.py.orig": HIDDEN,
    }


INNOCENT = {
    "/tmp/site/counter/totals.py": BUGGY,
    "/tmp/release/totals.py": OLDER_RELEASE,
    "/tmp/wheels/counter-0-py3-none-any.whl": archive(**{PATH: OLDER_RELEASE}),
    "/tmp/wheels/totals.zip": b"no archive",
    "/tmp/code/__pycache__/totals.cpython-311.pyc": b"no byte code",
    "build/lib/counter/totals.py": BUGGY,
    "async/totals.py": OTHER_RELEASE,
}
HOSTILE = """
import os
os.makedirs("/tmp/hostile/closed/totals.py")
os.chmod("/tmp/hostile/closed", 0)
os.chdir("/tmp/hostile")
for name in ("totals.py", "test_hidden.whl"):
    os.mkfifo(name)
os.symlink(".", "loop")
os.symlink("/workspace/counter/totals.py", "totals.link.py")
os.truncate(os.open("totals.bin", os.O_CREAT | os.O_WRONLY), 400_000_000)
for _ in range(40):
    os.mkdir("x" * 200)
    os.chdir("x" * 200)
"""


@BACKENDS
def test_an_innocent_sandbox_has_no_copy(backend: str) -> None:
    older = {"/tmp/code/totals.py": BUGGY, "/tmp/release/totals.pyc": OLDER_RELEASE}
    planted = Planted(files=INNOCENT, byte_code=older, script=HOSTILE)
    assert planted.searched(bug(), backend) == CopySearch()


@BACKENDS
def test_a_java_class_of_the_same_name_is_a_copy(backend: str) -> None:
    compiled = b"\xca\xfe\xba\xbe" + bytes(100)
    files = {
        "/tmp/maven/cart-1.jar": archive(**{"shop/Cart.class": compiled}),
        "/tmp/maven/cart-1-sources.jar": archive(**{"shop/Cart.java": JAVA_FIXED}),
        "/tmp/maven/other-1.jar": archive(**{"other/Cart.class": compiled}),
        "/tmp/classes/shop/Cart.class": compiled,
        "/tmp/old/Cart.java": JAVA_BUGGY,
        "target/classes/shop/Cart.class": compiled,
        "target/cart-1.jar": archive(**{"shop/Cart.class": compiled}),
    }
    java = bug(JAVA_PATH, JAVA_BUGGY, JAVA_FIXED, "java")
    found = Planted(files=files).searched(java, backend)
    assert {copy for _, copy in found.copies} == {
        "/tmp/maven/cart-1.jar/shop/Cart.class",
        "/tmp/maven/cart-1-sources.jar/shop/Cart.java",
        "/tmp/classes/shop/Cart.class",
    }


@dataclass(eq=False)
class Counted(Planted):
    """Its tests come out as they should, at once; counts their runs."""

    runs: int = 0

    def run_tests(self, instance: Instance, sandbox: Sandbox, tests: Iterable[str]) -> TestResults:
        self.runs += 1
        fixed = sandbox.read_file(PATH) == FIXED
        status = TestStatus.PASSED if fixed else TestStatus.FAILED
        return TestResults(dict.fromkeys(tests, status), "")


@BACKENDS
def test_a_readable_fix_is_a_mark_and_skipped(backend: str, tmp_path: Path) -> None:
    config = SandboxConfig.model_validate({"backend": backend, "image": TAG})
    kept = Verifications(tmp_path)
    benchmark = Counted(files={"/tmp/site/totals.py": FIXED})
    benchmark._instances = (bug(),)
    verification = verify_instance(benchmark, bug(), config)
    assert verification.marks == (Mark.FIX_READABLE,)
    [problem] = verification.problems
    assert problem == (
        f"{PATH} after the fix can be read in /tmp/site/totals.py (sandbox.hidden_paths hides it)"
    )
    kept.add(verification)
    with pytest.raises(ConfigError, match=r"1 bug is skipped: 1 fix_readable \(planted\)"):
        choose_instances(BenchmarkConfig(name="bundled"), benchmark, config, kept)
    # The user removes the copy.
    benchmark.files = {}
    [again] = verify(benchmark, [bug()], config, verifications=Verifications(tmp_path))
    assert (again.marks, again.unsearched, benchmark.runs) == ((Mark.OK,), "", 2)
    assert verify(benchmark, [bug()], config, verifications=Verifications(tmp_path)) == [again]


@BACKENDS
def test_what_was_verified_before_there_was_a_search_is_only_searched(
    backend: str, tmp_path: Path
) -> None:
    config = SandboxConfig.model_validate({"backend": backend, "image": TAG})
    benchmark = Counted(files={"/tmp/site/totals.py": FIXED})
    benchmark._instances = (bug(),)
    note_verified([bug()], config, Verifications(tmp_path))
    path = Verifications(tmp_path).path(Planted.name)
    path.write_text(path.read_text().replace('"unsearched":null,', ""))
    old = Verifications(tmp_path)
    chosen = choose_instances(BenchmarkConfig(name="bundled"), benchmark, config, old)
    assert len(chosen.instances) == 1
    [done] = verify(benchmark, [bug()], config, verifications=old)
    assert (done.marks, benchmark.runs) == ((Mark.FIX_READABLE,), 0)


@pytest.mark.docker
def test_an_image_without_python_is_told(image: str) -> None:
    found = Planted(files=PLANTED).searched(bug(), "docker", python="/usr/bin/no-python")
    assert found.copies == ()
    assert found.unsearched == "the sandbox has no Python (/usr/bin/no-python)"


@pytest.mark.slow
def test_a_package_on_the_readable_paths_is_found(tmp_path: Path) -> None:
    copy = tmp_path / "site-packages" / "totals.py"
    copy.parent.mkdir()
    copy.write_bytes(OTHER_RELEASE)
    tmp_path.chmod(0o755)
    for folder in [*tmp_path.parents][:2]:
        folder.chmod(0o755)
    found = Planted().searched(bug(), "local", readable_paths=[str(copy.parent)])
    assert found.copies == ((PATH, str(copy)),)
