from __future__ import annotations

import pytest

from collect.benchmarks.projects.project import read_metadata, read_requirements


@pytest.mark.parametrize(
    "path",
    [
        "requirements.txt",
        "requirements/base.txt",
        "requirements-prod.txt",
    ],
)
def test_files_for_use(path: str) -> None:
    found = read_requirements({path: b"attrs>=20\n"})
    assert (found.requires, found.test_requires) == (("attrs>=20",), ())


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
    found = read_requirements({path: b"pytest\nhypothesis\n"})
    assert (found.requires, found.test_requires) == ((), ("hypothesis",))


@pytest.mark.parametrize("path", ["requirements-docs.txt", "requirements/lint.txt", "docs/r.txt"])
def test_files_for_something_else(path: str) -> None:
    assert read_requirements({path: b"attrs\n-e git+https://x/y\n"}).left_out == ()


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
    found = read_requirements({"requirements.txt": end.join(lines).encode(encoding)})
    assert found.requires == ("attrs==23.1", "rich[x]>=13", "idna==3.6")
    assert found.left_out == ()


def test_files_that_are_included() -> None:
    files = {
        "requirements.txt": b"-r requirements/base.txt\n-r ../outside.txt\n",
        "requirements/base.txt": b"attrs\n-r ../requirements.txt\n",
        "requirements-dev.txt": b"--requirement=other/more.txt\n-r requirements.txt\nhypothesis\n",
        "other/more.txt": b"idna\n",
    }
    found = read_requirements(files)
    assert (found.requires, found.test_requires) == (("attrs",), ("hypothesis",))
    assert found.left_out == (
        "requirements-dev.txt: --requirement=other/more.txt",
        "requirements.txt: -r ../outside.txt",
    )


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
    found = read_requirements({"requirements.txt": f"{line}\nattrs\n".encode()})
    assert found.requires == ("attrs",)
    assert found.left_out == (f"requirements.txt: {line}",)


@pytest.mark.parametrize(
    "marker",
    [
        *('os_name ~= "abc"', '"a" == "b"', '"x" in dependency_groups'),
        "(" * 3000 + 'os_name == "posix"' + ")" * 3000,
    ],
)
def test_a_marker_that_means_nothing_does_not_hold(marker: str) -> None:
    told = f"Requires-Dist: attrs; {marker}\nRequires-Dist: idna\n"
    assert read_metadata({"PKG-INFO": told.encode()}).requires == ("idna",)


@pytest.mark.parametrize("value", ["[" * 5000, "9" * 5000])
def test_toml_that_can_t_be_read_tells_nothing(value: str) -> None:
    assert read_metadata({"pyproject.toml": f"a = {value}".encode()}).requires == ()
