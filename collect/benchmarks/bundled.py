"""StepInto's own benchmark: Python and Java bugs whose cause is visible only at run time.

On disk, `repositories/NAME/` holds a correct tree with its tests (Python in `tests/`, Java in each
module's `src/test/`), and `bugs/NAME__SLUG/` one bug in it: `bug.yaml`, and `gold.patch` from the
buggy tree to the correct one. The buggy tree is the correct one with the patch reversed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from collect.benchmarks.base import Instance, Language
from collect.benchmarks.running import BUILD_FOLDERS, StoredBenchmark
from collect.benchmarks.workspace import LEFT_OUT, folder_below, read_folder
from collect.code.patches import PatchError, apply_patch, drop_paths, reverse_patch
from collect.errors import ConfigError, first_wrong_field
from collect.store.plain_yaml import PlainYaml

BUNDLED = Path(__file__).with_name("bundled")


class _Bug(BaseModel):
    model_config = ConfigDict(extra="forbid")

    language: Language = "python"
    repository: str
    category: str
    issue: str = Field(min_length=1)
    fail_to_pass: tuple[str, ...] = Field(min_length=1)
    pass_to_pass: tuple[str, ...]


@dataclass(eq=False)
class BundledBenchmark(StoredBenchmark):
    """The bundled bugs, or those of another folder with the same layout."""

    name: ClassVar[str] = "bundled"
    root: Path = BUNDLED
    test_timeout: float = 60.0
    languages: Sequence[Language] = ("python",)

    def _read(self) -> Iterator[Instance]:
        bugs = self.root / "bugs"
        if not bugs.is_dir():
            raise ConfigError(
                f"{bugs}: no such folder; a bundled benchmark has the folders bugs and repositories"
            )
        for folder in sorted(bugs.iterdir()):
            path = folder / "bug.yaml"
            try:
                bug = _Bug.model_validate(yaml.load(_read(path).encode(), PlainYaml))
            except ValidationError as error:
                raise ConfigError(f"{path}: {first_wrong_field(error, _Bug)}") from error
            except (ValueError, RecursionError, yaml.YAMLError) as error:
                raise ConfigError(f"{path}: not YAML: {error}") from error
            if bug.language in self.languages:
                yield _instance(self.root, folder, bug)


def _instance(root: Path, folder: Path, bug: _Bug) -> Instance:
    patch_file = folder / "gold.patch"
    gold_patch = _read(patch_file)
    try:
        repository = folder_below(root / "repositories", bug.repository)
    except ConfigError as error:
        raise ConfigError(f"{folder / 'bug.yaml'}: repository: {error}") from error
    test_paths: tuple[str, ...] = ("tests",)
    if bug.language == "java":
        tree = read_folder(repository, LEFT_OUT | BUILD_FOLDERS)
        # One folder per module.
        modules = {path.partition("src/test/")[0] for path in tree if "src/test/" in path}
        test_paths = tuple(sorted(f"{module}src/test" for module in modules))
    else:
        tree = read_folder(repository)
    try:
        if drop_paths(gold_patch, test_paths) != drop_paths(gold_patch, ()) or not gold_patch:
            raise ConfigError(f"{patch_file}: must change the program, and none of its tests")
        files = apply_patch(tree, reverse_patch(gold_patch))
    except PatchError as error:
        raise ConfigError(
            f"{patch_file}: can't be reversed on {repository}, the correct tree: {error}"
        ) from error
    return Instance(
        id=folder.name,
        benchmark=BundledBenchmark.name,
        language=bug.language,
        repository=bug.repository,
        problem_statement=bug.issue,
        fail_to_pass=bug.fail_to_pass,
        pass_to_pass=bug.pass_to_pass,
        gold_patch=gold_patch,
        files=files,
        test_paths=test_paths,
        category=bug.category,
    )


def _read(path: Path) -> str:
    try:
        # Bytes, because text mode would turn "\r\n" into "\n".
        return path.read_bytes().decode()
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: no such file; every bug has bug.yaml and gold.patch") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8: {error}") from error
