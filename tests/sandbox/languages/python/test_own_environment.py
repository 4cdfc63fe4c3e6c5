"""The user's own virtual environment, honest and hostile."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox import Command, SandboxConfig, open_sandbox
from sandbox.languages.python.interpreters import minor_of
from sandbox.languages.python.own_environment import (
    EnvironmentUnusable,
    OwnEnvironment,
    editable_paths,
    find_own_environment,
    read_environment,
)
from sandbox.packages import copies_in
from sandbox.packages import pytest_plugins as plugins_in
from tests.sandbox.languages.python.environments import install, new_environment, pipe

HERE = minor_of(".".join(map(str, sys.version_info[:3])))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository's `.venv`."""
    new_environment(tmp_path / "shop" / ".venv")
    return tmp_path / "shop" / ".venv"


def packages_of(folder: Path) -> Path:
    return folder / "lib" / f"python{HERE}" / "site-packages"


def found(folder: Path) -> tuple[OwnEnvironment | None, tuple[str, ...]]:
    return find_own_environment(folder.parent, lambda _: None)


def run(folder: Path, *words: str, own_modules: tuple[str, ...] = ()) -> str:
    """What a command prints in a sandbox with the environment."""
    config = SandboxConfig(own_environment=str(folder), own_modules=own_modules)
    with open_sandbox(config) as sandbox:
        return sandbox.run(Command(words)).output


@pytest.fixture(autouse=True)
def no_active_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)


def test_it_is_found_and_the_sandbox_has_it_at_its_own_path(folder: Path) -> None:
    environment, refusals = found(folder)
    assert environment is not None
    assert (environment.folder, refusals) == (folder, ())
    assert minor_of(environment.version) == HERE
    code = "import sys, pytest; print(sys.prefix, pytest.__file__)"
    prefix, file = run(folder, "python", "-c", code).split()
    assert prefix == str(folder)
    assert file == str(packages_of(folder) / "pytest" / "__init__.py")
    assert "cannot create" in run(folder, "sh", "-c", f"echo x >> {file}")


def test_the_active_environment_is_used_if_the_repository_has_none(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    assert find_own_environment(tmp_path / "other", lambda _: None) == (None, ())
    monkeypatch.setenv("VIRTUAL_ENV", str(folder))
    environment, _ = find_own_environment(tmp_path / "other", lambda _: None)
    assert environment is not None
    assert environment.folder == folder
    # StepInto's own environment has correct versions of many projects.
    monkeypatch.setenv("VIRTUAL_ENV", sys.prefix)
    assert find_own_environment(tmp_path / "other", lambda _: None) == (None, ())


def test_why_one_is_not_used_is_told(folder: Path) -> None:
    (packages_of(folder) / "pytest").rename(packages_of(folder) / "nothing")
    for path in packages_of(folder).glob("pytest-*.dist-info"):
        path.rename(packages_of(folder) / "nothing-1.0.dist-info")
    environment, refusals = found(folder)
    assert environment is None
    assert refusals == (f"{folder} is not used: it has no pytest",)
    unwanted = find_own_environment(folder.parent, lambda _: "it is old")[1]
    assert unwanted == refusals


def test_what_it_has_from_an_index_is_known_for_other_machines(folder: Path) -> None:
    about = install(packages_of(folder), "shop")
    (about / "direct_url.json").write_text("{}")
    for name in ("Some.Thing-2.0", "bad name-1.0", "-", "pip-1"):
        (packages_of(folder) / f"{name}.dist-info").mkdir(exist_ok=True)
    environment = read_environment(folder)
    assert environment.distributions["some-thing"] == "2.0"
    assert "some-thing==2.0" in environment.released
    assert not {"shop", "pip", "bad name"} & {each.split("==")[0] for each in environment.released}


# Editable installs.


def test_an_editable_install_leads_to_the_copy(folder: Path) -> None:
    root = folder.parent
    for name in ("src", "packages/cart/lib", "ns"):
        (root / name).mkdir(parents=True)
    site_packages = packages_of(folder)
    (site_packages / "shop.pth").write_text(f"# paths\nimport os\n{root}/src\n")
    (site_packages / "elsewhere.pth").write_text(f"{root.parent}\n/etc\n{folder}/share\n")
    (site_packages / "__editable___cart_1_0_finder.py").write_text(
        f"MAPPING: dict[str, str] = {{'cart': '{root}/packages/cart/lib/cart', 'x': '{root}/y'}}\n"
        f"NAMESPACES: dict[str, list[str]] = {{'ns': ['{root}/ns']}}\nraise SystemExit\n"
    )
    assert editable_paths(read_environment(folder), root) == ("src", "packages/cart/lib", ".")


def test_another_copy_of_the_code_under_test_is_not_seen(folder: Path) -> None:
    site_packages = packages_of(folder)
    for name in ("shop/__init__.py", "shop_more.py", "libshop.py", "shared/shop/part.py"):
        (site_packages / name).parent.mkdir(parents=True, exist_ok=True)
        (site_packages / name).write_text("IS_FIXED = True\n")
    (site_packages / "shop_link.py").symlink_to("libshop.py")
    install(site_packages, "shop")
    (site_packages / "shared" / "other.py").write_text("OTHER = True\n")
    own = ("shop", "shop_more", "shop_link", "shared.shop")
    search = ("grep", "-rlE", "IS_FIXED|sha256=abc,20", str(site_packages))
    assert run(folder, *search).count("\n") == 5
    assert run(folder, *search, own_modules=own) == ""
    told = "import importlib.metadata as m, shared.other; print(m.version('shop'))"
    assert run(folder, "python", "-c", told, own_modules=own) == "1.0\n"


def test_older_copies_of_the_code_under_test_are_not_seen(folder: Path) -> None:
    site_packages = packages_of(folder)
    for path in (
        folder / "src" / "acme" / ".git" / "pack",
        folder / "src" / "acme" / "src" / "shop" / "__init__.py",
        folder / "src" / "plain" / "shop.py",
        site_packages / "Shop-1.0-py3.11.egg" / "shop" / "__init__.py",
        site_packages / "shop-0.9-py3.11.egg",
        site_packages / "~hop" / "__init__.py",
        site_packages / "other-1.0.egg" / "other.py",
        folder / "src" / "other" / "setup.py",
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("IS_FIXED = True\n")
    search = ("grep", "-rl", "IS_FIXED", str(folder))
    assert run(folder, *search).count("\n") == 8
    seen = run(folder, *search, own_modules=("shop", "setup")).splitlines()
    assert sorted(seen) == [
        str(site_packages / "other-1.0.egg" / "other.py"),
        str(folder / "src" / "other" / "setup.py"),
    ]


# A hostile environment.


def script(folder: Path) -> None:
    (folder / "bin" / "python").unlink()
    (folder / "bin" / "python").write_text(f"#!/bin/sh\ntouch {folder.parent}/ran\n")
    (folder / "bin" / "python").chmod(0o755)


def own_program(folder: Path) -> None:
    (folder / "bin" / "python").unlink()
    (folder / "bin" / "python").write_bytes(Path("/bin/sh").read_bytes())
    (folder / "bin" / "python").chmod(0o755)


def link_to(target: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        program = folder / "bin" / "python"
        real = program.resolve()
        (folder / "more").mkdir()
        (folder / "more" / "link").symlink_to(real.parent)
        place = folder.parents[1] / "elsewhere"
        place.symlink_to(real.parent)
        program.unlink()
        program.symlink_to(target.format(name=real.name, place=place, folder=folder))

    return spoil


def settings(*lines: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        path = folder / "pyvenv.cfg"
        kept = [each for each in path.read_text().splitlines() if each[:4] not in ("home", "incl")]
        home = folder.parents[1] / "home"
        home.symlink_to((folder / "bin" / "python").resolve().parent)
        base = (folder / "bin" / "python").resolve().parent
        text = "\n".join([*lines, *kept]).format(home=home, base=base)
        path.write_text(text)

    return spoil


def beside(name: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        (folder / "bin" / name).write_text(f"home = {folder}\n/workspace\n")

    return spoil


def loop(folder: Path) -> None:
    (folder / "bin").rename(folder / "programs")
    (folder / "bin").symlink_to("bin")


def replaced(name: str) -> Callable[[Path], None]:
    """A folder or file of the environment, moved elsewhere with a link in its place."""

    def spoil(folder: Path) -> None:
        path = folder / name.format(here=HERE)
        moved = folder.parents[1] / "moved"
        path.rename(moved)
        path.symlink_to(moved)

    return spoil


HOSTILE = {
    "its interpreter is a script": script,
    "its interpreter is its own": own_program,
    "a link leads through a folder that the sandbox lacks": link_to("{place}/{name}"),
    "a link leads through the environment's own links": link_to("{folder}/more/link/{name}"),
    "a link leads up": link_to("../more/link/{name}"),
    "a link without end": link_to("python"),
    "its home is elsewhere": settings("home = /workspace"),
    "its home is a link": settings("home = {home}"),
    "its home leads up": settings("home = {base}/../../../../../../../../{home}"),
    "it has two homes": settings("home = {base}", "HOME = /workspace"),
    "it has no home": settings(),
    "it wants the system's packages": settings(
        "home = {base}", "include-system-site-packages = true"
    ),
    "a list of folders beside its interpreter": beside("python._pth"),
    "more settings beside its interpreter": beside("pyvenv.cfg"),
    "its programs are a link to themselves": loop,
    "it is a link": replaced(""),
    "its programs are a link": replaced("bin"),
    "its packages are a link": replaced("lib/python{here}/site-packages"),
    "its library is a link": replaced("lib"),
}


@pytest.mark.parametrize("spoil", HOSTILE.values(), ids=HOSTILE)
def test_an_environment_that_leads_elsewhere_is_not_used(
    folder: Path, spoil: Callable[[Path], None]
) -> None:
    spoil(folder)
    environment, refusals = found(folder)
    assert environment is None
    assert len(refusals) == 1
    with pytest.raises(EnvironmentUnusable):
        run(folder, "true")
    assert not (folder.parent / "ran").exists()


def test_what_its_start_runs_runs_in_the_sandbox_alone(folder: Path, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    code = f"import pathlib; pathlib.Path({str(marker)!r}).touch(); print('ran')"
    site_packages = packages_of(folder)
    (site_packages / "evil.pth").write_text(f"{code}\n")
    (site_packages / "sitecustomize.py").write_text(code)
    (site_packages / "__editable___evil_finder.py").write_text(f"MAPPING = {{'evil': '/'}}\n{code}")
    environment, _ = found(folder)
    assert environment is not None
    editable_paths(environment, folder.parent)
    tmp_path.chmod(0o777)
    assert "ran" in run(folder, "python", "-c", "")
    assert not marker.exists()


def test_none_of_its_commands_hides_one_of_the_system(folder: Path) -> None:
    for name in ("sh", "find", "env", "setpriv", "prlimit", "setsid", "more-of-it"):
        (folder / "bin" / name).write_text("#!/bin/bash\necho of the environment\n")
        (folder / "bin" / name).chmod(0o755)
    assert run(folder, "sh", "-c", "find /workspace") == "/workspace\n"
    assert run(folder, "more-of-it") == "of the environment\n"
    for command in ("python", "python3"):
        assert run(folder, command, "-c", "import sys; print(sys.prefix)") == f"{folder}\n"
    (folder / "bin" / "pytest").write_text(f"#!{folder}/bin/python\nimport pytest\npytest.main()\n")
    (folder / "bin" / "pytest").chmod(0o755)
    assert run(folder, "pytest", "--version").startswith("pytest ")


def test_nothing_in_it_blocks_or_leads_a_reader_elsewhere(folder: Path) -> None:
    site_packages, secret = packages_of(folder), folder.parents[1] / "secret"
    secret.write_text(f"{folder.parent}\n")
    about = install(site_packages, "evil")
    for path in (about / "RECORD", about / "entry_points.txt", site_packages / "evil.pth"):
        pipe(path)
    (site_packages / "link.pth").symlink_to(secret)
    (site_packages / "long.pth").write_text(f"{'x' * 10_000}\n\0\n")
    (site_packages / "__editable___evil_finder.py").write_text("(" * 10_000)
    (site_packages / "evil").mkdir()
    environment, _ = found(folder)
    assert environment is not None
    assert editable_paths(environment, folder.parent) == ()
    assert run(folder, "cat", str(site_packages / "link.pth"), own_modules=("evil",)).endswith(
        "No such file or directory\n"
    )


def test_nothing_in_it_is_read_for_long(folder: Path) -> None:
    site_packages, number = packages_of(folder), 3000
    (site_packages / "many.pth").write_text("".join(f"x{n}\n" for n in range(300_000)))
    (site_packages / "deep.pth").write_text("x/" * 500_000 + "\n")
    mapping = {"a": "/x/" + "b/" * 500_000 + "a"} | {f"a{n}": "/x" for n in range(5000)}
    finder = site_packages / "__editable___evil_finder.py"
    finder.write_text(f"MAPPING = {mapping}\n")
    gap = "[pytest11]\na" + " " * 1_000_000 + "b\n"
    for name in ("gap", "other"):
        install(site_packages, name, gap)
    own = tuple(f"own{n}" for n in range(number))
    for name in own:
        (site_packages / f"{name}.py").touch()
    began = time.process_time()
    environment, _ = found(folder)
    assert environment is not None
    assert editable_paths(environment, folder.parent) == ()
    assert plugins_in(site_packages) == {}
    assert len(copies_in(site_packages, own)) == number
    assert time.process_time() - began < 10


def test_settings_that_would_block_are_refused(folder: Path) -> None:
    pipe(folder / "pyvenv.cfg")
    with pytest.raises(EnvironmentUnusable, match="can't be read"):
        read_environment(folder)
