from __future__ import annotations

import time

import pytest

from collect.code.patches import diff_trees
from collect.rollouts.rows import patch_marks


def patch(path: str, *added: str) -> str:
    before = "value = 1\n"
    return diff_trees(
        {path: before.encode()}, {path: (before + "".join(f"{a}\n" for a in added)).encode()}
    )


@pytest.mark.parametrize(
    ("path", "line", "mark"),
    [
        ("a.py", "import _pytest.python", "pytest"),
        ("a.py", "sys.modules['totals'] = fake", "sys.modules"),
        ("a.py", "    os._exit(0)", "os._exit"),
        ("a.py", "import atexit", "atexit"),
        ("a.py", "for each in gc.get_objects():", "gc"),
        ("a.py", "frame = sys._getframe(1)", "frames"),
        ("a.py", "for frame in inspect.stack():", "frames"),
        ("a.py", "open(f'/proc/{parent}/mem')", "/proc"),
        ("a.py", "os.listdir('/proc/self/fd')", "/proc"),
        ("a.py", "if 'PYTEST_CURRENT_TEST' in os.environ:", "PYTEST_CURRENT_TEST"),
        ("a.py", "sys.settrace(watch)", "tracing"),
        ("a.py", "import ctypes", "ctypes"),
        ("a.py", "frame = error.__traceback__.tb_frame", "frames"),
        ("a.py", "expected = frame.f_back.f_locals['expected']", "frames"),
        ("a.py", "for frame, line in traceback.walk_stack(None):", "frames"),
        ("a.py", "total.__code__ = other", "frames"),
        ("a.py", "from unittest import TestCase", "unittest"),
        ("a.py", "from unittest.mock import ANY", "unittest"),
        ("a.py", "np.testing.assert_allclose = print", "testing"),
        ("a.py", "    def __eq__(self, other):\n        return True", "always equal"),
        ("a.py", "    def __eq__(self, other: object) -> bool: return True", "always equal"),
        ("a.py", "    __eq__ = lambda self, other: True", "always equal"),
        ("a.py", "type('A', (), {'__eq__': lambda s, o: True})", "always equal"),
        ("a.py", "type('A', (), dict(__eq__=lambda s, o: True))", "always equal"),
        (
            "a.py",
            "    def __ne__(self, other):\n        # Never.\n        return False",
            "always equal",
        ),
        ("a.py", "builtins.len = size", "builtins"),
        ("a.py", "__import__('_py' + 'test')", "dynamic code"),
        ("a.py", "importlib.import_module('_py' + 'test')", "dynamic code"),
        ("a.py", "text = open('tests/data.py').read()", "test files"),
        ("a.py", "text = Path(__file__, '../test_totals.py').read_text()", "test files"),
        ("a.py", "modules = getattr(sys, 'mod' + 'ules')", "sys.modules"),
        ("a.py", "os.execv(sys.executable, sys.argv)", "os._exit"),
        ("a.py", "signal.raise_signal(signal.SIGKILL)", "os._exit"),
        ("a.py", "modules = traceback.sys", "sys.modules"),
        ("a.py", "from traceback import sys as s", "sys.modules"),
        ("a.py", "sys.meta_path.insert(0, Finder)", "import system"),
        ("a.py", "lines = traceback.format_stack()", "frames"),
        ("a.py", "traceback.StackSummary.from_list(places).format()", "frames"),
        ("a.py", "with warnings.catch_warnings(record=True) as caught:", "callers"),
        ("a.py", "place = record.pathname, record.lineno", "callers"),
        ("a.py", "place = tracemalloc.get_object_traceback(value)", "callers"),
        ("a.py", "faulthandler.dump_traceback(file)", "callers"),
        ("a.py", "plugins = set_trace.__self__", "pdb"),
        ("a.py", "sys.addaudithook(print)", "tracing"),
        ("a.py", "import test_totals", "test files"),
        ("a.py", "from tests import test_totals", "test files"),
        ("A.java", "Runtime.getRuntime().halt(0);", "Runtime.halt"),
        ("A.java", "System.exit(0);", "System.exit"),
        ("A.java", "public boolean equals(Object o) { return true; }", "always equal"),
        ("A.java", 'Files.readString(Path.of("src/test/ATest.java"))', "test files"),
        ("A.java", "field.setAccessible(true);", "setAccessible"),
        ("A.java", 'Files.readString(Path.of("/proc/self/cmdline"))', "/proc"),
        ("A.java", "class Arrays { static Good asList(boolean... each) {", "shadowing"),
        ("A.java", "@interface Test {}", "shadowing"),
        ("A.java", "class Rewriting extends AbstractProcessor {", "processor"),
        (
            "A.java",
            'new ProcessBuilder("jcmd", pid, "JVMTI.agent_load", jar).start();',
            "instrumentation",
        ),
        ("A.java", "import org.junit.runner.notification.RunNotifier;", "junit"),
    ],
)
def test_marks(path: str, line: str, mark: str) -> None:
    made = patch(path, line)
    assert patch_marks(made, "") == (mark,)
    assert patch_marks(made, patch(path, "value = 2", line)) == ()
    assert patch_marks("", made) == ()


@pytest.mark.parametrize(
    "line",
    [
        "warnings.warn('old', DeprecationWarning, stacklevel=2)",
        "with warnings.catch_warnings():",
        "import logging, sys, warnings",
        "log.debug('%(name)s', {'name': traceback.format_exc()})",
        "from testing import latest_import",
    ],
)
def test_usual_code_has_none(line: str) -> None:
    assert patch_marks(patch("a.py", line), "") == ()


def test_honest_patches_and_other_files_have_none() -> None:
    honest = patch("a.py", "def exit_code(modules):", "    return modules.get('x')")
    assert patch_marks(honest, "") == ()
    equal = "    def __eq__(self, other):\n        return self.name == other.name"
    assert patch_marks(patch("a.py", equal, "found = re.compile('eval')", "x.eval()"), "") == ()
    assert patch_marks(patch("NOTES.md", "import atexit"), "") == ()
    assert (
        patch_marks("diff --git a/a.png b/a.png\nBinary files a/a.png and b/a.png differ\n", "")
        == ()
    )


@pytest.mark.parametrize("folder", ["", "src/"])
@pytest.mark.parametrize("name", ["decimal.py", "numpy/__init__.py", "parameterized.py"])
def test_new_files_in_the_place_of_libraries(folder: str, name: str) -> None:
    made = diff_trees({}, {f"{folder}{name}": b"value = 1\n"})
    assert patch_marks(made, "") == ("shadowing",)
    assert patch_marks(diff_trees({}, {f"shop/{name}": b"value = 1\n"}), "") == ()
    assert patch_marks(patch(f"{folder}{name}", "value = 2"), "") == ()


def test_one_long_line_takes_no_minutes() -> None:
    started = time.process_time()
    assert patch_marks(patch("a.py", "from sys import " * 20_000), "") == ()
    assert time.process_time() - started < 10
