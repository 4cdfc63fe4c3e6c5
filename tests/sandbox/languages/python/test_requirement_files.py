from __future__ import annotations

import pytest

from sandbox.languages.python.declared import Declared, read_declared
from sandbox.languages.python.requirement_files import read_locks


@pytest.mark.parametrize(
    "path",
    [
        "requirements.txt",
        "requirements/base.txt",
        "requirements-prod.txt",
    ],
)
def test_files_for_use(path: str) -> None:
    listed = read_declared({path: b"attrs>=20\n"})
    assert (listed.requires, listed.test_requires) == (("attrs>=20",), ())


@pytest.mark.parametrize(
    "path",
    [
        "requirements-dev.txt",
        "requirements_test.txt",
        "test-requirements.txt",
        "requirements/tests.txt",
        "requirements/requirements-testing.txt",
    ],
)
def test_files_for_tests(path: str) -> None:
    listed = read_declared({path: b"pytest\nhypothesis\n"})
    assert (listed.requires, listed.test_requires) == ((), ("hypothesis",))


@pytest.mark.parametrize("path", ["requirements-docs.txt", "requirements/lint.txt", "docs/r.txt"])
def test_files_for_something_else(path: str) -> None:
    assert read_declared({path: b"attrs\n-e git+https://x/y\n"}).left_out == ()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines(encoding: str, end: str) -> None:
    lines = [
        "# packages",
        "attrs==23.1  # pinned",
        "rich [x] >=13 ; python_version > '3'",
        "idna==3.6 \\",
        "    --hash=sha256:00",
        "colorama ; sys_platform == 'win32'",
        "-e .[dev]",
        "",
    ]
    listed = read_declared({"requirements.txt": end.join(lines).encode(encoding)})
    assert listed.requires == ("attrs==23.1", "rich[x]>=13", "idna==3.6")
    assert listed.left_out == ()


def test_files_that_are_included() -> None:
    files = {
        "requirements.txt": b"-r requirements/base.txt\n-r ../outside.txt\n",
        "requirements/base.txt": b"attrs\n-r ../requirements.txt\n",
        "requirements-dev.txt": b"--requirement=other/more.txt\n-r requirements.txt\nhypothesis\n",
        "other/more.txt": b"idna\n",
    }
    listed = read_declared(files)
    assert (listed.requires, listed.test_requires) == (("attrs",), ("idna", "hypothesis"))
    assert listed.left_out == ("requirements.txt: -r ../outside.txt",)


@pytest.mark.parametrize(
    "line",
    [
        "x @ file:///tmp/x",
        "git+https://example.org/x.git",
        "./vendored",
        "/tmp/x.whl",
        "-e git+file:///x#egg=x",
        "--index-url https://example.org",
        "-r /etc/passwd",
        "${SECRET}",
    ],
)
def test_what_could_reach_anything_is_left_out_and_told(line: str) -> None:
    listed = read_declared({"requirements.txt": f"{line}\nattrs\n".encode()})
    assert listed.requires == ("attrs",)
    assert listed.left_out == (f"requirements.txt: {line}",)


def test_what_several_places_name_is_added_up() -> None:
    listed = read_declared(
        {
            "pyproject.toml": b'[project]\nname = "shop"\ndependencies = ["attrs"]\n',
            "requirements.txt": b"idna\n",
            "requirements/tests.txt": b"hypothesis\n-e .[fast]\n",
            "tests/requirements.txt": b"freezegun\n",
        }
    )
    assert listed.requires == ("attrs", "idna")
    assert listed.test_requires == ("hypothesis", "freezegun")


LOCKS = {
    "uv.lock": """
        [[package]]
        name = "attrs"
        version = "25.1.0"
        [[package]]
        name = "numpy"
        version = "1.0"
        [[package]]
        name = "numpy"
        version = "2.0"
        [[package]]
        name = "shop"
        source = { editable = "." }
    """,
    "poetry.lock": '[[package]]\nname = "attrs"\nversion = "25.1.0"\n',
    "pdm.lock": '[[package]]\nname = "attrs"\nversion = "25.1.0"\n',
    "pylock.toml": '[[packages]]\nname = "attrs"\nversion = "25.1.0"\n',
    "requirements.lock": "attrs==25.1.0\n    # via shop\nidna>=3\n-e file:.\n",
    "Pipfile.lock": '{"default": {"attrs": {"version": "==25.1.0"}}, "develop": {"a": 3}}',
}


@pytest.mark.parametrize("name", LOCKS)
def test_versions_of_a_lock_file(name: str) -> None:
    assert read_locks({name: LOCKS[name].encode()}) == ("attrs==25.1.0",)


@pytest.mark.parametrize("name", LOCKS)
@pytest.mark.parametrize("text", ["[" * 5000, "package = 3", "{}", '{"default": 3}', "\xff", ""])
def test_a_lock_file_that_can_t_be_read_fixes_nothing(name: str, text: str) -> None:
    assert read_locks({name: text.encode()}) == ()


@pytest.mark.parametrize("name", ["poetry.lock", "Pipfile.lock"])
@pytest.mark.parametrize(
    "package",
    ["foo @ http://x/foo\\n-r/etc/passwd\\n#", "foo; os_name=='\\n-r/etc/passwd\\n'", "foo\\n"],
)
def test_a_lock_file_fixes_nothing_but_packages(name: str, package: str) -> None:
    toml = f'[[package]]\nname = "{package}"\nversion = "1"\n'
    text = toml if name == "poetry.lock" else f'{{"default": {{"{package}": {{"version": "1"}}}}}}'
    assert read_locks({name: text.encode()}) == ()


def test_files_that_include_each_other_deeply_or_often() -> None:
    files = {f"requirements/x{n}": f"-r x{n + 1}\n".encode() for n in range(2000)}
    files["requirements.txt"] = b"-r requirements/x0\nattrs\n" + b"-c big.txt\n" * 4000
    files["big.txt"] = b"idna==1\n" * 4000
    listed = read_declared(files)
    assert (listed.requires, listed.constraints) == (("attrs",), ("idna==1",))


def test_constraints_that_a_file_names() -> None:
    listed = read_declared(
        {"requirements-dev.txt": b"idna\n-c fixed.txt\n", "fixed.txt": b"idna==3.1\nattrs>=2\n"}
    )
    assert listed == Declared(test_requires=("idna",), constraints=("idna==3.1",))
