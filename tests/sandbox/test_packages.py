"""Extra packages of the local sandbox, from wheels that the tests make: no index is needed."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tarfile
import threading
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
from pydantic import ValidationError

from sandbox import Command, SandboxConfig, open_sandbox
from sandbox.errors import SandboxUnavailable
from sandbox.packages import _PIP as PIP
from sandbox.packages import _runner_python, packages_folder, runner_python
from tests.collect.repository import Repository

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("pip") is None, reason="this interpreter has no pip"
)


PACKAGE = "tinything"


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where pip looks: a folder with a package of one module; the cache is the test's own."""
    runner_python()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    packages_folder.cache_clear()
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    write_wheel(folder)
    return folder


def write_wheel(folder: Path, name: str = PACKAGE, more: str = "") -> None:
    about = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}.py", "ANSWER = 41 + 1\n")
        archive.writestr(
            f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{more}"
        )
        archive.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{about}/RECORD", "")


@pytest.fixture
def source(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source tree whose build says that it ran, as a folder, a repository and an sdist."""
    monkeypatch.setenv("STEPINTO_TEST_API_KEY", "sk-of-the-user")
    folder = wheels.parent / "evil"
    folder.mkdir()
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        '[project]\nname = "evil"\nversion = "1.0"\n'
    )
    (folder / "backend.py").write_text(
        "import os, pathlib\n"
        f"told = os.environ.get('STEPINTO_TEST_API_KEY', 'nothing')\n"
        f"pathlib.Path({str(marker(folder))!r}).write_text(f'ran, and read {{told}}')\n"
    )
    Repository(folder).commit()
    with tarfile.open(wheels / "evil-1.0.tar.gz", "w:gz") as archive:
        archive.add(folder, "evil-1.0")
    return folder


def marker(source: Path) -> Path:
    return source.parent / "marker"


def test_a_package_is_importable_and_read_only(wheels: Path) -> None:
    with open_sandbox(SandboxConfig(packages=(PACKAGE,))) as sandbox:
        found = sandbox.run(
            Command([sandbox.python, "-c", "import tinything as t; print(t.ANSWER, t.__file__)"])
        )
        answer, file = found.output.split()
        written = sandbox.run(Command(["sh", "-c", f"echo x >> {file}"]))
    assert answer == "42"
    assert written.exit_code != 0
    assert Path(file).read_text() == "ANSWER = 41 + 1\n"


@pytest.mark.slow
def test_an_environment_that_was_deleted_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    _runner_python.cache_clear()
    try:
        python = Path(runner_python())
        shutil.rmtree(tmp_path / "stepinto")
        assert runner_python() == str(python)
        assert python.exists()
    finally:
        _runner_python.cache_clear()


def test_the_environment_has_the_test_runner_alone() -> None:
    script = (
        "import importlib.metadata as m, sys; print(*{d.name.lower() for d in m.distributions()})"
    )
    with open_sandbox(SandboxConfig()) as sandbox:
        names = sandbox.run(Command(["python", "-c", script])).output.split()
        assert sandbox.run(Command(["pytest", "--version"])).exit_code == 0
        # Byte code of the host's own installations, StepInto's among them, is nowhere to be seen.
        elsewhere = sandbox.run(Command(["sh", "-c", f"ls {sys.prefix} {Path(pytest.__file__)}"]))
    assert {"pytest", "coverage", "pluggy"} <= set(names)
    assert not {"stepinto", "jinja2", "rich", "pip", "setuptools"} & set(names)
    assert elsewhere.output.count("No such file or directory") == 2


def test_packages_that_others_use_are_hidden() -> None:
    """Those of the interpreter that StepInto's environment is made of."""
    script = (
        "import glob, sys\n"
        "for prefix in ('/usr', '/usr/local', sys.base_prefix):\n"
        "    for name in ('site-packages', 'dist-packages', 'ensurepip/_bundled'):\n"
        "        print(*glob.glob(f'{prefix}/lib*/python3*/{name}/*'))\n"
    )
    with open_sandbox(SandboxConfig()) as sandbox:
        assert sandbox.run(Command(["python", "-c", script])).output.split() == []


def test_an_interpreter_of_the_users_keeps_its_packages() -> None:
    with open_sandbox(SandboxConfig(python=sys.executable)) as sandbox:
        result = sandbox.run(Command(["python", "-c", "import pydantic"]))
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("own_modules", "left"),
    [
        ((), {"alone.py", "pack/__init__.py", "pack/code.py", "names/a/x.py", "names/b/x.py"}),
        (("alone", "pack"), {"names/a/x.py", "names/b/x.py"}),
        (("names.a",), {"alone.py", "pack/__init__.py", "pack/code.py", "names/b/x.py"}),
        # The tree's folder `pack` is no package, so it is the installed one that is imported.
        (("pack.code", "none", "names.c"), None),
    ],
)
def test_no_package_brings_the_code_under_test(
    wheels: Path, own_modules: tuple[str, ...], left: set[str] | None
) -> None:
    modules = ("alone.py", "pack/__init__.py", "pack/code.py", "names/a/x.py", "names/b/x.py")
    with zipfile.ZipFile(wheels / f"{PACKAGE}-1.0-py3-none-any.whl", "a") as archive:
        for path in modules:
            archive.writestr(path, "FIXED = True\n")
    config = SandboxConfig(packages=(PACKAGE,), own_modules=own_modules)
    script = (
        "import importlib.metadata as m, os, pathlib, sys\n"
        "folder = pathlib.Path(os.environ['PYTHONPATH'])\n"
        "print(*(path.relative_to(folder) for path in folder.rglob('*.py*')))\n"
        f"print(m.version('{PACKAGE}'))\n"
    )
    with open_sandbox(config) as sandbox:
        result = sandbox.run(Command(["python", "-c", script]))
    *paths, version = result.output.split()
    names = {
        path.replace("__pycache__/", "").replace(f".{sys.implementation.cache_tag}.pyc", ".py")
        for path in paths
    }
    assert version == "1.0"
    assert names == {"tinything.py", *(set(modules) if left is None else left)}


def test_a_packages_list_tells_nothing_of_the_code_under_test(wheels: Path) -> None:
    """A hash would tell which file has the bug, and when it is fixed."""
    about, compiled = f"{PACKAGE}-1.0.dist-info", "abc__mypyc.cpython-311-x86_64-linux-gnu.so"
    paths = ("pack/__init__.py", "pack/code.py", "other.py", compiled)
    listed = [f"{path},sha256=of-{path},12" for path in (f"{PACKAGE}.py", *paths)]
    with zipfile.ZipFile(wheels / f"{PACKAGE}-1.0-py3-none-any.whl", "w") as archive:
        for path in (f"{PACKAGE}.py", *paths):
            archive.writestr(path, "FIXED = True\n")
        archive.writestr(
            f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: 1.0"
        )
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n")
        archive.writestr(f"{about}/RECORD", "\n".join(listed))
    whole = packages_folder(sys.executable, (PACKAGE,))
    folder = packages_folder(sys.executable, (PACKAGE,), ("pack",))
    assert "pack/code.py" in (whole / about / "RECORD").read_text()
    record = (folder / about / "RECORD").read_text()
    assert "sha256=of-other.py" in record
    assert "pack" not in record
    assert (whole / compiled).exists()
    assert not (folder / compiled).exists()


@pytest.mark.slow
def test_it_is_installed_once(wheels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = packages_folder(sys.executable, (PACKAGE,))
    packages_folder.cache_clear()
    monkeypatch.setattr(subprocess, "run", _refuse_pip(subprocess.run))
    assert packages_folder(sys.executable, (PACKAGE,)) == folder


@pytest.mark.slow
def test_two_at_once_get_one_folder(wheels: Path) -> None:
    found: list[Path] = []

    def install() -> None:
        found.append(packages_folder.__wrapped__(sys.executable, (PACKAGE,)))

    threads = [threading.Thread(target=install) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    left = {path.name for path in found[0].parent.iterdir()}
    assert left == {found[0].name, f"{found[0].name}.lock"}


def test_what_pip_can_not_install_is_told(wheels: Path) -> None:
    with pytest.raises(SandboxUnavailable, match=r"sandbox\.packages: .*nothing(.|\n)*docker"):
        packages_folder(sys.executable, ("nothing",))
    packages = wheels.parent / "cache" / "stepinto" / "environments"
    assert [path.suffix for path in packages.iterdir()] == [".lock"]


@pytest.mark.parametrize(
    "form",
    [
        *("{0}", "../evil", ".", "{0}/../wheels/evil-1.0.tar.gz", "evil @ file://{0}"),
        *("git+file://{0}", "evil @ git+file://{0}", "-e{0}", "--editable={0}", "evil\n{0}"),
    ],
)
def test_only_names_of_packages_reach_pip(
    form: str, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(source)
    named = form.format(source)
    with pytest.raises(SandboxUnavailable, match=r"sandbox\.packages: .* is not the name of a"):
        packages_folder(sys.executable, (named,))
    with pytest.raises(ValidationError, match="is not the name of a package"):
        SandboxConfig(packages=(named,))
    assert not marker(source).exists()


def test_a_name_like_a_file_is_not_that_file(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(source.parent / "wheels")
    with pytest.raises(SandboxUnavailable):
        packages_folder(sys.executable, ("evil-1.0.tar.gz",))
    assert not marker(source).exists()


def test_a_wheel_that_requires_a_source_tree_does_not_get_it_built(
    wheels: Path, source: Path
) -> None:
    write_wheel(wheels, "innocent", f"Requires-Dist: evil @ file://{source}\n")
    with pytest.raises(SandboxUnavailable, match="only wheels are installed"):
        packages_folder(sys.executable, ("innocent",))
    assert not marker(source).exists()


@pytest.mark.slow
def test_a_wheels_scripts_are_written_nowhere_else(wheels: Path) -> None:
    elsewhere = wheels.parent / "of-the-user"
    elsewhere.write_text("precious")
    script = f"[console_scripts]\n{elsewhere} = {PACKAGE}:main\n"
    with zipfile.ZipFile(wheels / f"{PACKAGE}-1.0-py3-none-any.whl", "a") as archive:
        archive.writestr(f"{PACKAGE}-1.0.dist-info/entry_points.txt", script)
    # Some releases of pip take the script's file name for its name.
    with suppress(SandboxUnavailable):
        packages_folder(sys.executable, (PACKAGE,))
    assert elsewhere.read_text() == "precious"


@pytest.mark.parametrize("path", ["{0}/new", "link", "../new"])
def test_pip_writes_to_its_own_folders_alone(path: str, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "link").symlink_to(tmp_path / "new")
    (tmp_path / "pip.py").write_text(f"open({path.format(tmp_path)!r}, 'w')")
    done = subprocess.run(
        [sys.executable, "-c", PIP, "install", "--target", tmp_path / "own"],
        cwd=tmp_path / "own",
        env={
            "TMPDIR": str(tmp_path / "own"),
            "PIP_CACHE_DIR": "/none",
            "PYTHONPATH": str(tmp_path),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"a package would be written to {tmp_path}/new" in done.stderr
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "setting",
    [
        "PIP_CONFIG_FILE",
        *(pytest.param(s, marks=pytest.mark.slow) for s in ("PIP_NO_BINARY", "PIP_REQUIREMENT")),
    ],
)
def test_no_setting_of_pip_brings_sources_in(
    setting: str, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = source.parent / "settings"
    if setting == "PIP_CONFIG_FILE":
        file.write_text("[install]\nno-binary = evil\n")
    else:
        file.write_text(f"--no-binary :all:\n{source}\n")
    monkeypatch.setenv(setting, "evil" if setting == "PIP_NO_BINARY" else str(file))
    with pytest.raises(SandboxUnavailable, match="No matching distribution found for evil"):
        packages_folder(sys.executable, ("evil",))
    assert not marker(source).exists()


@pytest.mark.slow
def test_versions_extras_and_markers_are_names(wheels: Path) -> None:
    named = (f"{PACKAGE}[fast]>=1,<2", 'nothing==1; python_version < "3"')
    assert SandboxConfig(packages=named).packages == named
    assert (packages_folder(sys.executable, named) / f"{PACKAGE}.py").is_file()


def test_packages_and_docker_exclude_each_other() -> None:
    with pytest.raises(ValidationError, match="use an image that has tinything"):
        SandboxConfig(backend="docker", packages=("tinything",))
    with pytest.raises(ValidationError, match="not options of pip"):
        SandboxConfig(packages=("--upgrade",))


def _refuse_pip(run: object) -> object:
    def refusing(argv: list[str], **options: object) -> object:
        assert "install" not in argv
        return run(argv, **options)  # type: ignore[operator]

    return refusing
