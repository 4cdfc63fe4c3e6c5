from __future__ import annotations

from pathlib import Path

import pytest

from sandbox import Command, SandboxConfig, open_sandbox
from sandbox.languages.python.metadata import own_metadata
from sandbox.languages.python.projects import find_projects, import_paths, read_needs
from tests.sandbox.languages.python.conftest import tree

CORE = """
[project]
name = "acme-core"
version = "1.5"
dependencies = ["attrs"]
[project.entry-points."acme.things"]
core = "acme_core:THING"
"""
WEB = """
[project]
name = "acme-web"
version = "2.5"
dependencies = ["acme-core[fast]>=1", "idna"]
[project.optional-dependencies]
test = ["hypothesis"]
[project.entry-points."acme.things"]
web = "acme_web:THING"
"""
FILES = {
    "packages/core/pyproject.toml": CORE,
    "packages/core/src/acme_core/__init__.py": "THING = 1\n",
    "packages/web/pyproject.toml": WEB,
    "packages/web/acme_web.py": "THING = 2\n",
    "packages/web/tests/data/sample/pyproject.toml": '[project]\nname = "sample"\n',
    "docs/setup.py": "setup(name='docs')\n",
}
WORKSPACE = '[tool.uv.workspace]\nmembers = ["packages/*"]\nexclude = ["packages/web"]\n'
TOP = '[project]\nname = "acme"\nversion = "1"\n'


@pytest.mark.parametrize(
    ("pyproject", "folders"),
    [
        ("", ("packages/core", "packages/web")),
        (WORKSPACE, ("packages/core",)),
        (TOP, ("",)),
        (TOP + WORKSPACE, ("", "packages/core")),
    ],
)
def test_projects_are_that_at_the_top_and_the_members(
    pyproject: str, folders: tuple[str, ...]
) -> None:
    assert find_projects(tree({**FILES, "pyproject.toml": pyproject})) == folders


def test_members_are_imported_from_the_repository_and_not_installed() -> None:
    files = tree(FILES)
    assert import_paths(files) == ("packages/core/src", "packages/web")
    needs = read_needs(files)
    assert needs.requires == ("attrs", "idna")
    assert needs.test_requires == ("hypothesis",)


def test_of_what_members_fix_to_different_versions_any_will_do() -> None:
    lists = {
        "packages/core/test-requirements.txt": "idna==3.1\nattrs>=2\nattrs>=3\nzipp==1\n",
        "packages/web/test-requirements.txt": "idna==3.2\n",
    }
    needs = read_needs(tree({**FILES, **lists}))
    assert needs.test_requires == ("attrs>=2", "attrs>=3", "zipp==1", "hypothesis")


def test_members_look_as_installed_in_place(cache: Path) -> None:
    files = tree(FILES)
    config = SandboxConfig(
        own_metadata=own_metadata(files).folder, import_paths=import_paths(files)
    )
    look = "import importlib.metadata as m\n"
    look += "print(m.version('acme-core'), m.version('acme-web'))\n"
    look += "print(sorted(e.load() for e in m.entry_points(group='acme.things')))\n"
    with open_sandbox(config) as sandbox:
        sandbox.write_files(files)
        seen = sandbox.run(Command(["python", "-c", look])).output
    assert seen == "1.5 2.5\n[1, 2]\n"
