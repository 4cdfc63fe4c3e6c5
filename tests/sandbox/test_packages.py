"""Extra packages of the local sandbox, from a wheel that the test makes: no index is needed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest
from pydantic import ValidationError

from sandbox import Command, SandboxConfig, open_sandbox
from sandbox.errors import SandboxUnavailable
from sandbox.packages import packages_folder

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("pip") is None, reason="this interpreter has no pip"
)


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package of one module, in a cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "tinything-1.0-py3-none-any.whl"
    about = "tinything-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tinything.py", "ANSWER = 41 + 1\n")
        archive.writestr(
            f"{about}/METADATA", "Metadata-Version: 2.1\nName: tinything\nVersion: 1.0\n"
        )
        archive.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{about}/RECORD", "")
    return str(path)


def test_a_package_is_importable_and_read_only(wheel: str) -> None:
    with open_sandbox(SandboxConfig(packages=(wheel,))) as sandbox:
        found = sandbox.run(
            Command([sandbox.python, "-c", "import tinything as t; print(t.ANSWER, t.__file__)"])
        )
        answer, file = found.output.split()
        written = sandbox.run(Command(["sh", "-c", f"echo x >> {file}"]))
    assert answer == "42"
    assert written.exit_code != 0
    assert Path(file).read_text() == "ANSWER = 41 + 1\n"


def test_it_is_installed_once(wheel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = packages_folder(sys.executable, (wheel,))
    packages_folder.cache_clear()
    monkeypatch.setattr(subprocess, "run", _refuse_pip(subprocess.run))
    assert packages_folder(sys.executable, (wheel,)) == folder


def test_two_at_once_get_one_folder(wheel: str) -> None:
    found: list[Path] = []

    def install() -> None:
        found.append(packages_folder.__wrapped__(sys.executable, (wheel,)))

    threads = [threading.Thread(target=install) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    left = {path.name for path in found[0].parent.iterdir()}
    assert left == {found[0].name, f"{found[0].name}.lock"}


def test_what_pip_can_not_install_is_told(wheel: str) -> None:
    missing = wheel.replace("tinything", "nothing")
    with pytest.raises(SandboxUnavailable, match=r"sandbox\.packages: .*nothing(.|\n)*docker"):
        packages_folder(sys.executable, (missing,))
    packages = Path(wheel).parent / "cache" / "stepinto" / "environments"
    assert [path.suffix for path in packages.iterdir()] == [".lock"]


def test_packages_and_docker_exclude_each_other() -> None:
    with pytest.raises(ValidationError, match="use an image that has tinything"):
        SandboxConfig(backend="docker", packages=("tinything",))
    with pytest.raises(ValidationError, match="not options of pip"):
        SandboxConfig(packages=("--upgrade",))


def _refuse_pip(run: object) -> object:
    def refusing(argv: list[str], **options: object) -> object:
        assert "pip" not in argv
        return run(argv, **options)  # type: ignore[operator]

    return refusing
