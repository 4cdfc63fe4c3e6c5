"""A project looks as after `pip install -e .`, whatever its build backend does."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from sandbox import Command, SandboxConfig, open_sandbox
from sandbox.languages.python import backend as backends
from sandbox.languages.python import metadata
from sandbox.languages.python.metadata import OwnMetadata, own_metadata, with_version_module
from tests.sandbox.languages.python.conftest import BUILD, backend, tree

ENTRY_POINTS = "[console_scripts]\nacme-tool = acme.cli:App.main\n[acme.things]\nbig = acme:Big\n"
LOOK = """
import importlib.metadata as m
print(m.version("acme"), [e.name for e in m.entry_points(group="acme.things")])
"""


@pytest.fixture(autouse=True)
def own_cache(cache: Path) -> None:
    metadata._found.cache_clear()


def made(files: Mapping[str, str], version: str | None = None) -> OwnMetadata:
    return own_metadata(tree(files), version)


def seen(own: OwnMetadata, *command: str) -> str:
    """What a command prints in a sandbox of the project."""
    files = {
        "acme/__init__.py": b"",
        "acme/cli.py": b"class App:\n    main = lambda: print('ran')\n",
    }
    config = SandboxConfig(own_metadata=own.folder, import_paths=(".",))
    with open_sandbox(config) as sandbox:
        sandbox.write_files(files)
        return sandbox.run(Command(command)).output.strip()


WRITTEN = {
    "PEP 621": {
        "pyproject.toml": """
            [project]
            name = "acme"
            version = "2.5"
            [project.scripts]
            acme-tool = "acme.cli:App.main"
            [project.entry-points."acme.things"]
            big = "acme:Big"
        """
    },
    "by its backend": {
        "pyproject.toml": BUILD + '[project]\nname = "acme"\ndynamic = ["version"]\n',
        "backend.py": backend(version="str(2.5)", entry_points=ENTRY_POINTS),
    },
    "by tags": {
        "pyproject.toml": BUILD + '[project]\nname = "acme"\ndynamic = ["version"]\n',
        "backend.py": backend(
            version="os.environ['SETUPTOOLS_SCM_PRETEND_VERSION']", entry_points=ENTRY_POINTS
        ),
    },
    # Their backends are not at hand: no index.
    "Poetry": {
        "pyproject.toml": """
            [build-system]
            requires = ["poetry-core"]
            [tool.poetry]
            name = "acme"
            version = "2.5"
            [tool.poetry.scripts]
            acme-tool = "acme.cli:App.main"
            [tool.poetry.plugins."acme.things"]
            big = "acme:Big"
        """
    },
    "setup.cfg": {
        "setup.cfg": """
[metadata]
name = acme
version = 2.5
[options.entry_points]
console_scripts =
    acme-tool = acme.cli:App.main
acme.things = big = acme:Big
"""
    },
    "setup.py": {
        "setup.py": """
from setuptools import setup
points = {"console_scripts": ["acme-tool=acme.cli:App.main"], "acme.things": "big = acme:Big"}
setup(name="acme", version="2.5", entry_points=points)
"""
    },
}


@pytest.mark.parametrize("kind", WRITTEN)
def test_metadata_entry_points_and_commands(kind: str) -> None:
    own = made(WRITTEN[kind], "2.5")
    assert seen(own, "python", "-c", LOOK) == "2.5 ['big']"
    assert seen(own, "acme-tool") == "ran"
    assert bool(own.note) == (kind in ("Poetry", "setup.cfg", "setup.py"))


def test_a_version_that_nothing_tells() -> None:
    pyproject = BUILD + '[project]\nname = "acme"\ndynamic = ["version"]\n'
    failing = {"pyproject.toml": pyproject, "backend.py": "raise RuntimeError('no git here')\n"}
    own = made(failing)
    assert seen(own, "python", "-c", LOOK).startswith("0.0.0")
    assert "no git here" in own.note
    told = {**failing, "PKG-INFO": "Name: acme\nVersion: 3.1\n"}
    assert seen(made(told), "python", "-c", LOOK).startswith("3.1")


def test_what_a_backend_requires_is_told() -> None:
    files = {"PKG-INFO": "", "setup.py": "setup(name='acme')"}
    assert "setuptools" in made(files).note


def test_no_project_has_no_metadata() -> None:
    assert made({"pyproject.toml": "[tool.pytest]\n", "a.py": ""}) == OwnMetadata("")


def test_it_is_made_once() -> None:
    files = dict(WRITTEN["by its backend"])
    own = made(files)
    metadata._found.cache_clear()
    began = time.time()
    assert made({**files, "acme/rules.py": "edited = True\n"}).folder == own.folder
    assert Path(own.folder).stat().st_mtime < began
    assert made({**files, "acme/__init__.py": "__version__ = 'edited'\n"}).folder != own.folder


@pytest.mark.parametrize("path", ["tools", "tools/build", "."])
def test_another_backend_makes_its_own(path: str) -> None:
    name = "tools.make" if path == "." else "make"
    pyproject = BUILD.replace('"."', f'"{path}"').replace('"backend"', f'"{name}"')
    pyproject += '[project]\nname = "acme"\ndynamic = ["version"]\n'
    place = "tools/make.py" if path == "." else f"{path}/make.py"
    first = made({"pyproject.toml": pyproject, place: backend(version="'1.0'")})
    metadata._found.cache_clear()
    second = made({"pyproject.toml": pyproject, place: backend(version="'2.0'")})
    assert [seen(own, "python", "-c", LOOK)[:3] for own in (first, second)] == ["1.0", "2.0"]


VERSION = "(exec(open('../../scripts/get_version.py').read()) or VERSION)"


def member(version: str) -> dict[str, str]:
    """A project in a folder whose backend asks a script of the repository for the version."""
    project = '[project]\nname = "acme"\ndynamic = ["version"]\n'
    script = '[tool.version]\npath = "../../scripts/get_version.py"\n'
    return {
        "pyproject.toml": '[tool.uv.workspace]\nmembers = ["packages/*"]\n',
        "packages/acme/pyproject.toml": BUILD + project + script,
        "packages/acme/backend.py": backend(version=VERSION),
        "scripts/get_version.py": f"VERSION = {version!r}\n",
    }


def test_a_build_in_a_folder_uses_files_of_the_repository() -> None:
    first, second = made(member("1.5")), made(member("2.5"))
    assert (first.note, second.note) == ("", "")
    assert [seen(own, "python", "-c", LOOK)[:3] for own in (first, second)] == ["1.5", "2.5"]


def test_of_a_failed_build_the_error_is_told() -> None:
    files = member("1.5")
    files["packages/acme/backend.py"] = "def get(n):\n    raise OSError('no tag\\n  in v1')\nget(1)"
    note = made(files).note
    assert note.endswith("its build failed: backend failed: OSError: no tag in v1")


def test_builds_of_many_projects_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "MOST_SECONDS", 0.0)
    own = made(WRITTEN["by its backend"])
    assert seen(own, "python", "-c", LOOK).startswith("0.0.0")
    assert "other builds took" in own.note


HOSTILE = {
    "network": "import socket; socket.create_connection(('127.0.0.1', {port}), 5)",
    "writes": "import pathlib; pathlib.Path('{outside}').write_text('ran')",
    "endless": "while True: pass",
    "forks": "import os\nwhile True: os.fork()",
    "memory": "x = bytearray(1 << 40)",
    "deep": "import sys; sys.stdout.write('x' * 50_000_000); raise ValueError",
    "kills": "import os; os.kill(-1, 9)",
}


@pytest.mark.parametrize(
    "kind", ["writes", *(pytest.param(k, marks=pytest.mark.slow) for k in HOSTILE if k != "writes")]
)
def test_a_hostile_backend_reaches_nothing_and_stops_nothing(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = backends.LIMITS.model_copy(update={"command_timeout": 5.0})
    monkeypatch.setattr(backends, "LIMITS", limits)
    outside = tmp_path / "outside"
    code = HOSTILE[kind].format(outside=outside, port=9)
    pyproject = BUILD + '[project]\nname = "acme"\ndynamic = ["version"]\n'
    own = made({"pyproject.toml": pyproject, "backend.py": code})
    assert seen(own, "python", "-c", LOOK).startswith("0.0.0")
    assert "its build failed" in own.note
    assert len(own.note) < 2000
    assert not outside.exists()


ODD = {
    "a path as its name": backend(name="../../evil"),
    "no version": backend(version="'../x'"),
    "huge": backend(more="Summary: " + "x" * 3).replace("{more}", "")
    + "METADATA += 'x' * 50_000_000\n",
    "a folder elsewhere": "def prepare_metadata_for_build_wheel(*_):\n    return '../../etc'\n",
    "no text": "def prepare_metadata_for_build_wheel(*_):\n    return 3\n",
    "a link": backend() + "def prepare_metadata_for_build_wheel(folder, settings=None):\n"
    "    os.mkdir(folder + '/a.dist-info')\n"
    "    os.symlink('/etc/passwd', folder + '/a.dist-info/METADATA')\n"
    "    return 'a.dist-info'\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ODD)
def test_odd_metadata_leads_nowhere(kind: str, tmp_path: Path) -> None:
    before = {path for path in tmp_path.rglob("*") if "cache" not in path.parts}
    pyproject = BUILD + '[project]\nname = "acme"\ndynamic = ["version"]\n'
    own = made({"pyproject.toml": pyproject, "backend.py": ODD[kind]})
    assert {path for path in tmp_path.rglob("*") if "cache" not in path.parts} == before
    for path in Path(own.folder).rglob("*") if own.folder else ():
        assert path.stat().st_size < 2_000_000
        assert "root:" not in (path.read_text() if path.is_file() else "")


def test_nothing_else_of_the_cache_is_seen(cache: Path) -> None:
    """It has whole releases, of the code under test too."""
    own = made(WRITTEN["PEP 621"])
    secret = cache / "stepinto" / "sdists" / "acme-9.tar.gz"
    secret.parent.mkdir()
    secret.write_text("fixed")
    listed = seen(own, "find", str(cache), "-mindepth", "3", "-maxdepth", "3")
    assert listed == own.folder
    assert seen(own, "sh", "-c", f"echo x > {own.folder}/x").count("Read-only") == 1


def test_commands_are_named_like_commands() -> None:
    entries = [
        *("../evil = a:b", "/tmp/evil = a:b", "-x = a:b", "good = a:b.c"),
        *("quoted = a:b;import os", "lines = a", "sh = a:b"),
    ]
    scripts = "\n".join(["[console_scripts]", *entries])
    files = {
        "pyproject.toml": BUILD + '[project]\nname = "acme"\ndynamic = ["version"]\n',
        "backend.py": backend(entry_points=scripts),
    }
    own = made(files)
    assert {path.name for path in Path(own.folder, "bin").iterdir()} == {"good", "sh"}
    # None takes the place of a command of the system's.
    assert seen(own, "sh", "-c", "command -v sh") != f"{own.folder}/bin/sh"


@pytest.mark.parametrize("value", ["/etc/passwd", "../../../../etc/passwd"])
def test_no_file_that_pyproject_names_is_read(value: str) -> None:
    project = f'[project]\nname = "acme"\nversion = "1"\nreadme = "{value}"\n'
    own = made({"pyproject.toml": project + f'license = {{ file = "{value}" }}\n'})
    (about,) = Path(own.folder).glob("*.dist-info")
    assert "root:" not in (about / "METADATA").read_text()


WRITERS = {
    "setuptools_scm": '[tool.setuptools_scm]\nversion_file = "src/acme/_version.py"\n',
    "setuptools_scm 7": '[tool.setuptools_scm]\nwrite_to = "src/acme/_version.py"\n',
    "hatch-vcs": '[tool.hatch]\nbuild.hooks.vcs.version-file = "src/acme/_version.py"\n',
    "pdm": '[tool.pdm.version]\nsource = "scm"\nwrite_to = "src/acme/_version.py"\n',
}


@pytest.mark.parametrize("writer", WRITERS)
def test_the_module_of_the_version_is_there(writer: str) -> None:
    files = with_version_module({"pyproject.toml": WRITERS[writer].encode()}, "1.2.3")
    module: dict[str, object] = {}
    exec(files["src/acme/_version.py"], module)
    assert (module["version"], module["version_tuple"]) == ("1.2.3", (1, 2, 3))
    built = {**files, "src/acme/_version.py": b"version = 4"}
    assert with_version_module(built, "1.2.3") == built


@pytest.mark.parametrize(
    "place", ["/etc/version.py", "../version.py", "a/../../version.py", "a.sh"]
)
def test_no_module_of_a_version_lies_elsewhere(place: str) -> None:
    text = f'[tool.setuptools_scm]\nversion_file = "{place}"\n'
    assert list(with_version_module({"pyproject.toml": text.encode()}, None)) == ["pyproject.toml"]
