"""What can be installed of what a project declares, from an index of the test's own."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from sandbox import Command, SandboxConfig, open_sandbox
from sandbox.languages.python import backend as backends
from sandbox.languages.python.choosing import Chosen, choose_packages
from sandbox.languages.python.sdists import NoSdist, build_wheel
from sandbox.packages import packages_folder, runner_python
from tests.sandbox.languages.python.conftest import BUILD, backend
from tests.sandbox.test_packages import write_wheel


@pytest.fixture
def index(cache: Path, tmp_path: Path) -> Path:
    """With the wheels `first` and `second`, and the sdist `third`."""
    folder = tmp_path / "index"
    write_wheel(folder, "first")
    write_wheel(folder, "second")
    write_sdist(folder, "third")
    return folder


def write_sdist(folder: Path, name: str, files: Mapping[str, str] | None = None) -> None:
    files = files or {"backend.py": backend(name), f"{name}.py": "ANSWER = 42\n"}
    with tarfile.open(folder / f"{name}-1.0.tar.gz", "w:gz") as archive:
        for path, text in {"pyproject.toml": BUILD, **files}.items():
            entry = tarfile.TarInfo(f"{name}-1.0/{path}")
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))


def chosen(*wanted: str, constraints: tuple[str, ...] = ()) -> Chosen:
    return choose_packages(runner_python(), wanted, constraints)


@pytest.mark.slow
def test_one_that_can_t_be_installed_leaves_the_others(index: Path) -> None:
    found = chosen("first", "nowhere>=2", "second", "third")
    assert found.packages == ("first", "second", "third")
    assert [*found.missing] == ["nowhere"]
    assert "No matching distribution found for nowhere" in found.missing["nowhere"]
    with open_sandbox(SandboxConfig(packages=found.packages)) as sandbox:
        code = "import first, second, third; print(third.ANSWER)"
        result = sandbox.run(Command(["python", "-c", code]))
    assert result.output == "42\n"


@pytest.mark.slow
def test_not_all_are_tried_where_none_can_be_installed(index: Path) -> None:
    names = [f"nowhere{n}" for n in range(9)]
    found = chosen(*names)
    assert [*found.missing] == names
    assert "No matching distribution" in found.missing["nowhere0"]
    assert found.missing["nowhere8"].startswith("it was not tried")


def test_an_sdist_is_built_where_a_record_names_it(index: Path) -> None:
    """On another machine than the one that wrote the record."""
    folder = packages_folder(runner_python(), ("third",))
    assert (folder / "third.py").read_text() == "ANSWER = 42\n"


@pytest.mark.slow
def test_what_a_package_requires_is_built_too(index: Path) -> None:
    write_wheel(index, "outer", 'Requires-Dist: third ; python_version > "3"\n')
    assert chosen("outer") == Chosen(("outer",), {})


@pytest.mark.slow
def test_versions_of_a_lock_file_are_kept_if_they_can_be(index: Path) -> None:
    write_wheel(index, "outer", "Requires-Dist: first\n")
    fixed = ("first==1.0", "second==1.0")
    assert chosen("outer>=1", constraints=fixed).packages == ("outer>=1", "first==1.0")
    assert chosen("outer", constraints=("first==7",)) == Chosen(("outer",), {})


HOSTILE = {
    "network": "import socket; socket.create_connection(('127.0.0.1', 9), 5)",
    "writes": "import pathlib; pathlib.Path('{outside}').write_text('ran')",
    "endless": "while True: pass",
    "another": "def build_wheel(folder, *_):\n    return 'pytest-99-py3-none-any.whl'\n",
    "elsewhere": "def build_wheel(folder, *_):\n    return '../../evil-1.0-py3-none-any.whl'\n",
    "nothing": "def build_wheel(folder, *_):\n    return 'evil-1.0-py3-none-any.whl'\n",
    "huge": "def build_wheel(folder, *_):\n"
    "    name = 'evil-1.0-py3-none-any.whl'\n"
    "    open(folder + '/' + name, 'wb').truncate(200_000_000)\n"
    "    return name\n",
}


@pytest.mark.parametrize(
    "kind", ["writes", *(pytest.param(k, marks=pytest.mark.slow) for k in HOSTILE if k != "writes")]
)
def test_a_hostile_sdist_reaches_nothing_and_stops_nothing(
    kind: str, index: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = backends.LIMITS.model_copy(update={"command_timeout": 5.0})
    monkeypatch.setattr(backends, "LIMITS", limits)
    outside = cache.parent / "outside"
    write_sdist(index, "evil", {"backend.py": HOSTILE[kind].format(outside=outside)})
    found = chosen("evil")
    assert found.packages == ()
    assert [*found.missing] == ["evil"]
    assert not outside.exists()
    assert not list(cache.rglob("*.whl"))


def test_what_an_sdist_requires_is_named_as_a_package(index: Path) -> None:
    build = BUILD.replace("[]", '["evil @ file:///tmp/evil"]', 1)
    write_sdist(index, "evil", {"pyproject.toml": build})
    assert "is not the name of a package" in chosen("evil").missing["evil"]


def test_a_bomb_is_not_unpacked(index: Path) -> None:
    write_sdist(index, "evil", {"zeros": "\0" * 100_000_000})
    with pytest.raises(NoSdist, match="more than 64 MB"):
        build_wheel(runner_python(), "evil")
