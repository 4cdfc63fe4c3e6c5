"""How the tests of SWE-bench's own repositories are run, where a record does not say it itself.

The commands are those of swebench 4: `MAP_REPO_VERSION_TO_SPECS_PY`.
"""

from __future__ import annotations

from dataclasses import dataclass

from collect.benchmarks.swe_bench.records import Record
from collect.unified import renamed_files

ENVIRONMENT = (
    "source /opt/miniconda3/bin/activate",
    "conda activate testbed",
)
EDITABLE = "python -m pip install -e"
INSTALL = f"{EDITABLE} ."
PYTEST = "pytest -rA"
DJANGO = "./tests/runtests.py --verbosity 2"
LOCALE = ("export LANG=en_US.UTF-8", "export LC_ALL=en_US.UTF-8", "export LANGUAGE=en_US:en")
GENERATED_LOCALE = "sed -i '/en_US.UTF-8/s/^# //g' /etc/locale.gen && locale-gen"
NO_TESTS = (
    *(".json", ".png", "csv", ".txt", ".md", ".jpg", ".jpeg", ".pkl", ".yml", ".yaml"),
    ".toml",
)
"""Ends of file names in a test patch that name no tests; upstream's list."""


@dataclass(frozen=True)
class Repository:
    """One repository of SWE-bench."""

    parser: str
    test: str = PYTEST
    install: str = INSTALL


REPOSITORIES = {
    "astropy/astropy": Repository("astropy", install=f"{EDITABLE} .[test] --verbose"),
    "django/django": Repository("django", f"{DJANGO} --settings=test_sqlite --parallel 1"),
    "marshmallow-code/marshmallow": Repository("pytest", install=f"{EDITABLE} '.[dev]'"),
    "matplotlib/matplotlib": Repository("matplotlib"),
    "mwaskom/seaborn": Repository("seaborn", "pytest --no-header -rA", f"{EDITABLE} .[dev]"),
    "pallets/flask": Repository("pytest"),
    "psf/requests": Repository("pytest_options", install="python -m pip install ."),
    "pvlib/pvlib-python": Repository("pytest", install=f"{EDITABLE} .[all]"),
    "pydata/xarray": Repository("pytest"),
    "pydicom/pydicom": Repository("pytest_options"),
    "pylint-dev/astroid": Repository("pytest"),
    "pylint-dev/pylint": Repository("pytest_options"),
    "pytest-dev/pytest": Repository("pytest"),
    "pyvista/pyvista": Repository("pytest"),
    "scikit-learn/scikit-learn": Repository(
        "scikit", install="python -m pip install -v --no-use-pep517 --no-build-isolation -e ."
    ),
    "sphinx-doc/sphinx": Repository(
        "sphinx", "tox --current-env -epy39 -v --", f"{EDITABLE} .[test]"
    ),
    "sqlfluff/sqlfluff": Repository("pytest"),
    "sympy/sympy": Repository(
        "sympy",
        "PYTHONWARNINGS='ignore::UserWarning,ignore::SyntaxWarning' bin/test -C --verbose",
    ),
}


def run_commands(record: Record) -> list[str]:
    """The commands of a test run, after those of `setup_commands`; of a known repository."""
    return [" ".join([_test_command(record), *_directives(record)])]


def setup_commands(record: Record) -> list[str]:
    """What comes before the tests: the environment, and the program built anew."""
    return [*ENVIRONMENT, *_settings(record), _install_command(record)]


def _test_command(record: Record) -> str:
    version = _number(record.version)
    if record.repo == "django/django" and record.version == "1.9":
        return DJANGO
    if record.repo == "astropy/astropy" and version < (3,):
        return "pytest -rA -vv -o console_output_style=classic --tb=no"
    return REPOSITORIES[record.repo].test


def _install_command(record: Record) -> str:
    version = _number(record.version)
    if record.repo == "django/django" and version < (3,):
        return "python setup.py install"
    if record.repo == "matplotlib/matplotlib" and version < (3,):
        return "python setup.py build; python setup.py install"
    if record.repo == "matplotlib/matplotlib" and version >= (3, 8):
        return 'python -m pip install --no-build-isolation -e ".[dev]"'
    if record.repo == "mwaskom/seaborn" and version < (0, 12):
        return INSTALL
    return REPOSITORIES[record.repo].install


def _settings(record: Record) -> tuple[str, ...]:
    version = _number(record.version)
    if record.repo != "django/django" or not (1, 7) <= version < (4,):
        return ()
    if version < (3,):
        return (*LOCALE, "export PYTHONIOENCODING=utf8")
    return (GENERATED_LOCALE, *LOCALE)


def _directives(record: Record) -> list[str]:
    """The tests to run: the files of the test patch, as the repository's runner names them."""
    files = [path for _, path in renamed_files(record.test_patch) if not path.endswith(NO_TESTS)]
    if record.repo != "django/django":
        return files
    return [path.removesuffix(".py").removeprefix("tests/").replace("/", ".") for path in files]


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.lstrip("v").split(".") if part.isdigit())
