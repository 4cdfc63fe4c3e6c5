"""The workspace of a bug in a sandbox: set up, patched, and compared with earlier states.

It holds the bug's files, or is a git repository of the image, where git does all the work inside
the sandbox, because such a tree may have thousands of files.
"""

from __future__ import annotations

import errno
import os
import stat
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import TypeVar

from packaging.utils import canonicalize_name

from collect.benchmarks.base import Benchmark, Environment, Instance
from collect.code.patches import PatchError, apply_patch, changed_paths, named_files, unquote
from collect.errors import ConfigError
from collect.store.files import LOCK
from sandbox import Command, Sandbox, SandboxConfig, open_sandbox
from sandbox.errors import SandboxFileError, SandboxUnavailable
from sandbox.java.dependencies import for_project
from sandbox.languages.python.metadata import own_metadata
from sandbox.languages.python.own_environment import OwnEnvironment, read_environment
from sandbox.languages.python.project_files import own_name
from sandbox.languages.python.pytest_options import (
    BREAKING_PLUGINS,
    ProjectOptions,
    read_project_options,
    with_project_options,
)
from sandbox.packages import builder_of, interpreter_of, packages_folder, pytest_plugins
from sandbox.shell import capture, scratch_folder

MAX_NEIGHBOURS = 60
"""Limit of files read from the same folders as those of a gold patch."""
PLUGINS = "PYTEST_PLUGINS"
BUILD_FILES = ("pom.xml", "build.gradle*", "settings.gradle*", "*/pom.xml", "*/build.gradle*")


def open_instance_sandbox(config: SandboxConfig, instance: Instance) -> Sandbox:
    """A fresh sandbox with an empty workspace or the image's, and the bug's environment. Raises
    SandboxUnavailable, ImageMissing."""
    configured = with_environment(config, instance.environment, instance.files)
    if instance.language == "python" and instance.image is None:
        options = options_of(instance)
        configured = with_project(configured, instance.environment, instance.files, options)
    if instance.language == "java" and instance.image is None:
        configured = for_project(configured, instance.files, instance.is_users)
    return open_sandbox(configured, instance.image, instance.image_workspace)


def with_project(
    config: SandboxConfig,
    environment: Environment,
    files: Mapping[str, bytes],
    options: ProjectOptions,
) -> SandboxConfig:
    """The config of `with_environment` with a Python project as installing it in place leaves it,
    with its pytest options, and with its pytest plugins, but for those that these options load or
    refuse. Raises SandboxUnavailable."""
    own: str | None = None
    known: dict[str, str] = {}
    if config.backend == "local":
        users = _users_environment(config)
        if users is None or canonicalize_name(own_name(files)) not in users.distributions:
            own = own_metadata(files, environment.version, builder_of(config)).folder or None
        known = _plugins(config, users)
        if own:
            made = pytest_plugins(Path(own))
            known |= {name: module for name, module in made.items() if _has(files, module)}
    named = filter(None, config.environment.get(PLUGINS, "").split(","))
    # pytest refuses a plugin that is loaded under two names.
    by_options = {known.get(name) for name in options.plugins}
    plugins = [name for name in dict.fromkeys([*known.values(), *named]) if name not in by_options]
    # pytest's third-party plugins, by the same rule for verdicts, debug sessions and agents'
    # commands: those that the project and the packages bring, or PYTEST_PLUGINS names.
    variables = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **config.environment}
    variables |= {PLUGINS: ",".join(plugins)} if plugins else {}
    variables = with_project_options(variables, options)
    return config.model_copy(update={"own_metadata": own, "environment": variables})


def options_of(instance: Instance) -> ProjectOptions:
    """What the project's files say of pytest's options for the bug's tests."""
    tests = (*instance.fail_to_pass, *instance.pass_to_pass) or instance.test_paths
    return read_project_options(instance.files, tests)


def _users_environment(config: SandboxConfig) -> OwnEnvironment | None:
    if config.own_environment is None or config.python is not None:
        return None
    return read_environment(Path(config.own_environment))


def _plugins(config: SandboxConfig, users: OwnEnvironment | None) -> dict[str, str]:
    """The pytest plugins of the user's environment, and of the packages besides: names and
    modules."""
    plugins: dict[str, str] = {}
    if users is not None:
        for name, module in pytest_plugins(users.site_packages).items():
            if not BREAKING_PLUGINS.fullmatch(module):
                plugins[name] = module
    if config.packages:
        python = interpreter_of(config).installer
        folder = packages_folder(python, config.packages, config.own_modules)
        plugins |= pytest_plugins(folder)
    return plugins


def _has(files: Mapping[str, bytes], module: str) -> bool:
    """Whether a module is among the files: a plugin that is not stops pytest."""
    path = module.replace(".", "/")
    ends = f"{path}.py", f"{path}/__init__.py"
    return any(file in ends or file.endswith(tuple(f"/{end}" for end in ends)) for file in files)


def with_environment(
    config: SandboxConfig, environment: Environment, files: Iterable[str]
) -> SandboxConfig:
    """The config with the environment of a tree with these files added; the config's own settings
    come first, and pytest plugins are added up."""
    packages = environment.packages if config.backend == "local" else ()
    import_paths = tuple(dict.fromkeys((*config.import_paths, *environment.import_paths)))
    variables = {**environment.variables, **config.environment}
    plugins = [named.get(PLUGINS, "") for named in (environment.variables, config.environment)]
    if any(plugins):
        variables[PLUGINS] = ",".join(filter(None, plugins))
    return config.model_copy(
        update={
            "packages": tuple(dict.fromkeys((*config.packages, *packages))),
            "own_modules": own_modules(files, import_paths),
            "python_version": environment.python,
            "own_environment": environment.folder,
            "import_paths": import_paths,
            "environment": variables,
        }
    )


def own_modules(files: Iterable[str], import_paths: Iterable[str]) -> tuple[str, ...]:
    """The outermost modules and packages that Python finds in a tree: `toolz`; of a namespace
    package, which other distributions may share, what is inside it: `jaraco.text`."""
    sources = {path for path in files if path.endswith(".py")}
    modules: set[str] = set()
    for root in {".", *map(normpath, import_paths)}:
        prefix = "" if root == "." else f"{root}/"
        for path in sources:
            parts = path.removeprefix(prefix).removesuffix(".py").split("/")
            if not path.startswith(prefix) or not all(map(str.isidentifier, parts)):
                continue
            for depth in range(1, len(parts)):
                if f"{prefix}{'/'.join(parts[:depth])}/__init__.py" in sources:
                    parts = parts[:depth]
                    break
            modules.add(".".join(parts))
    return tuple(sorted(modules))


def prepare_patched(
    benchmark: Benchmark, instance: Instance, sandbox: Sandbox, patch: str
) -> Instance:
    """Write the buggy tree with a patch applied, and the hidden tests; returns the bug in that
    state. Raises PatchError, SandboxError."""
    if instance.image_workspace is None:
        files = {**apply_patch(instance.files, patch), **instance.hidden_files}
        patched = replace(instance, files=files)
        benchmark.prepare(patched, sandbox)
        return patched
    benchmark.prepare(instance, sandbox)
    patch_workspace(sandbox, patch)
    sandbox.write_files(instance.hidden_files)
    return instance


@dataclass(frozen=True)
class Snapshot:
    files: Mapping[str, bytes] | None
    """All files of a small workspace; None for a repository."""
    tree: str = ""
    """The id of the repository's tree, which git computes from the contents."""

    def changes(self, sandbox: Sandbox) -> tuple[Mapping[str, bytes], Mapping[str, bytes]]:
        """Files before and after; unchanged ones may be missing. Raises SandboxFileError if the
        workspace can't be read."""
        if self.files is None:
            return changed_files(sandbox, self.tree)
        return self.files, sandbox.read_tree()


def snapshot(instance: Instance, sandbox: Sandbox) -> Snapshot:
    if instance.image_workspace is None:
        return Snapshot(sandbox.read_tree())
    return Snapshot(None, tree_of(sandbox))


def with_sources(instance: Instance, sandbox: Sandbox) -> Instance:
    """A bug whose code is in the image, with some of its files: those that the gold patch changes
    and the sources next to them, for the oracle, and the build files. Others are unchanged."""
    if instance.image_workspace is None:
        return instance
    gold = sorted(named_files(instance.gold_patch))
    suffix = ".java" if instance.language == "java" else ".py"
    folders = {dirname(path) for path in gold if path.endswith(suffix)}
    patterns = [f"{folder}/*{suffix}".lstrip("/") for folder in sorted(folders)]
    near = tracked_files(sandbox, *patterns) if patterns else []
    siblings = [path for path in near if dirname(path) in folders][:MAX_NEIGHBOURS]
    builds = tracked_files(sandbox, *BUILD_FILES) if instance.language == "java" else []
    return replace(instance, files=read_files(sandbox, [*gold, *siblings, *builds]))


def patch_workspace(sandbox: Sandbox, patch: str) -> None:
    """Apply a unified diff to the workspace: exactly, or with git if it is a repository. Raises
    PatchError, SandboxFileError."""
    if sandbox.run(Command(["test", "-d", ".git"])).exit_code == 0:
        apply_with_git(sandbox, patch)
        return
    before = read_files(sandbox, sorted(changed_paths(patch)))
    after = apply_patch(before, patch)
    sandbox.write_files({path: data for path, data in after.items() if before.get(path) != data})
    if deleted := sorted(before.keys() - after.keys()):
        run_checked(sandbox, f"can't delete {', '.join(deleted)}", "rm", "-f", "--", *deleted)


def reset_workspace(sandbox: Sandbox, files: Mapping[str, bytes]) -> None:
    """Reset the workspace to exactly these files: a killed test may not have cleaned up, nor given
    rights back. Raises SandboxFileError."""
    empty = "find . -mindepth 1 -delete"
    script = f"{empty} 2>/dev/null || {{ chmod -R u+rwX . && {empty}; }}"
    run_checked(sandbox, "can't empty the workspace", "sh", "-c", script)
    sandbox.write_files(files)


def run_checked(sandbox: Sandbox, problem: str, *command: str) -> None:
    """Run a command. Raises SandboxFileError with the problem and its output if it fails."""
    result = sandbox.run(Command(command))
    if result.exit_code != 0:
        raise SandboxFileError(f"{problem}: {result.output.strip()}")


def read_files(sandbox: Sandbox, names: Iterable[str], folder: str = "") -> dict[str, bytes]:
    """Those of the files that exist, by name: a program under test may remove some."""
    files = {}
    for name in dict.fromkeys(names):
        with suppress(SandboxFileError):
            files[name] = sandbox.read_file(join(folder, name))
    return files


# Read and write folders on disk as trees of files.

LEFT_OUT = frozenset(
    {
        *("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"),
        *(".git", ".hg", ".tox", ".nox", ".venv", "node_modules", ".eggs"),
    }
)
"""Folders without any of the project's own files."""
ENVIRONMENT_FILE = "pyvenv.cfg"
"""At the top of a virtual environment, whatever its folder is called."""
RUN_FOLDERS = frozenset({"rollouts", "conversations"})
"""Beside the lock they tell a run of StepInto, such as a recording of this repository."""
MEGABYTE = 1024 * 1024
BLOCK = 4096
"""Bytes that a copied file counts at least: a few links could name millions of empty ones."""
Read = TypeVar("Read")


class TreeTooLarge(ConfigError):
    def __init__(self, place: Path, max_mb: int) -> None:
        super().__init__(f"{place}: more than {max_mb} MB of files")


def read_regular(path: str, found: os.stat_result) -> bytes:
    """Read a file that was found. A link, or a pipe that would block, may have taken its place:
    raises FileNotFoundError, as if it had vanished. Raises OSError if it can't be read."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link, a socket
            raise FileNotFoundError(path) from error
        raise
    with open(opened, "rb") as file:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise FileNotFoundError(path)
        return file.read()


def read_folder(
    folder: Path,
    left_out: Collection[str] = LEFT_OUT,
    max_mb: int | None = None,
    read: Callable[[str, os.stat_result], bytes] = read_regular,
) -> dict[str, bytes]:
    """Every regular file, by path relative to the folder, except in folders with names in
    `left_out`, in virtual environments and in runs of StepInto. A link to one of these files, or to
    a folder of them, is read as a copy; other links, which may lead elsewhere, are skipped, and
    so are files that vanish meanwhile. `read` gives the content of a file.

    Raises TreeTooLarge before any reading if there are more than `max_mb` megabytes, ConfigError
    for a name that is not UTF-8, or a file that can't be read.
    """
    entries = dict[str, os.stat_result]()
    links = list[str]()
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in left_out]
        below = os.path.relpath(root, folder)
        is_run = LOCK in names and RUN_FOLDERS.issubset(folders)
        if below != "." and (is_run or ENVIRONMENT_FILE in names):
            folders.clear()
            continue
        for name in (*names, *folders):
            if name in left_out:
                continue
            found = _unless_gone(os.lstat, f"{root}/{name}")
            path = name if below == "." else f"{below}/{name}"
            if found is not None and stat.S_ISREG(found.st_mode):
                entries[path] = found
            elif found is not None and stat.S_ISLNK(found.st_mode):
                links.append(path)
    for name in (*entries, *links):
        if not is_utf_8(name):
            raise ConfigError(f"{folder}: the name of {name!a} is not UTF-8: rename the file")
    places = {name: name for name in entries}
    known = sorted(entries)
    size = sum(found.st_size for found in entries.values())
    _check_size(folder, size, max_mb)
    for link in links:
        copies = _copies(folder, link, known)
        size += sum(max(entries[place].st_size, BLOCK) for place in copies.values())
        _check_size(folder, size, max_mb)
        places |= copies
    files = {}
    # The same order on every machine.
    for name in sorted(places, key=lambda name: name.split("/")):
        place = places[name]
        data = _unless_gone(read, f"{folder}/{place}", entries[place])
        if data is not None:
            files[name] = data
    return files


def _check_size(folder: Path, size: int, max_mb: int | None) -> None:
    if max_mb is not None and size > max_mb * MEGABYTE:
        raise TreeTooLarge(folder, max_mb)


def _copies(folder: Path, link: str, known: Sequence[str]) -> dict[str, str]:
    """The files that a link adds, and the one of `known`, which are in order, that each is a copy
    of."""
    try:
        # The kernel follows 40 links, Python as many as there are.
        is_folder = stat.S_ISDIR((folder / link).stat().st_mode)
        target = os.path.relpath((folder / link).resolve(), folder.resolve())
    except (OSError, RuntimeError):  # it leads to itself, or nowhere
        return {}
    if not is_folder:
        place = bisect_left(known, target)
        return {link: target} if known[place : place + 1] == [target] else {}
    inside = f"{target}/"
    if target == "." or link.startswith(inside):
        return {}  # its own parent, whose copy would have no end
    # "0" is the next character after "/".
    below = known[bisect_left(known, inside) : bisect_left(known, f"{target}0")]
    return {link + name.removeprefix(target): name for name in below}


def _unless_gone(read: Callable[..., Read], path: str, *arguments: object) -> Read | None:
    """What `read` gives of a file; None if it has vanished. Raises ConfigError if it can't be
    read."""
    try:
        return read(path, *arguments)
    except FileNotFoundError:
        return None
    except OSError as error:
        told = f"{Path(path)} can't be read: {error.strerror}; make it readable, or remove it"
        raise ConfigError(told) from error


def folder_below(root: Path, named: str) -> Path:
    """The folder that a record names, relative to `root`, with links resolved.

    Raises ConfigError if it is outside: a record could name any folder of this machine, whose files
    would then be sent to models.
    """
    root = root.resolve()
    folder = (root / named).resolve()
    if not folder.is_relative_to(root):
        raise ConfigError(
            f"{named} is not below {root}: move or copy the repository there, and name it relative "
            "to that folder"
        )
    if not folder.is_dir():
        raise ConfigError(f"no such folder: {folder}; a name is relative to {root}")
    return folder


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    for path, data in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)


def is_utf_8(name: str) -> bool:
    """Whether a name from the file system is valid text."""
    return name.isascii() or not any("\ud800" <= character <= "\udfff" for character in name)


# A workspace that is a git repository: hide future history, apply and extract patches.

GIT_TIMEOUT = 900.0
"""Seconds for one git command; packing a large history takes minutes on a busy machine."""
_PRELUDE = """
set -eu
umask 022
export GIT_OPTIONAL_LOCKS=0 GIT_NO_REPLACE_OBJECTS=1 GIT_TERMINAL_PROMPT=0
command -v git >/dev/null || { echo "there is no git"; exit 127; }
"""
# Copy what must remain into a new repository, and delete the old one: a list of what to remove
# (branches, remotes, reflogs, stashes, replaced and dangling objects, kept packs, alternates ...)
# would never be complete.
_SEAL = """
git config --global --replace-all safe.directory '*'
old=$(git rev-parse --absolute-git-dir)
[ "$old" = "$PWD/.git" ] || { echo "its repository is $old"; exit 1; }
rm -f "$old/index.lock" "$old/info/grafts"
git config core.fileMode false
git add -A
tree=$(git write-tree)
base=$(git rev-parse -q --verify "$1^{commit}" || true)
git config user.name setup
git config user.email setup@localhost
when="2000-01-01T00:00:00Z"
[ -z "$base" ] || when=$(git show -s --format=%cI "$base")
export GIT_AUTHOR_DATE=$when GIT_COMMITTER_DATE=$when
if [ -z "$base" ]; then commit=$(git commit-tree "$tree" -m Setup)
elif [ "$(git rev-parse "$base^{tree}")" = "$tree" ]; then commit=$base
else commit=$(git commit-tree "$tree" -p "$base" -m Setup)
fi
# On the same file system, which packs are renamed on.
new=$(mktemp -d "$old/sealed.XXXXXX")
git init -q --template= "$new"
mkdir -p "$new/.git/info" "$new/.git/objects/pack"
tags="$new/tags"
git for-each-ref --merged="$commit" --format='%(objectname) %(refname)' refs/tags >"$tags"
pack() {
    { echo "$commit"; cut -d' ' -f1 "$tags"; } |
        git pack-objects -q --revs "$new/.git/objects/pack/pack" >/dev/null
}
if ! pack 2>/dev/null; then
    # A partial clone, whose past is elsewhere: the tree alone is whole.
    commit=$(git commit-tree "$tree" -m Setup)
    : >"$tags"
    rm -f "$old/shallow"
    pack
fi
for file in shallow info/exclude info/sparse-checkout; do
    [ ! -f "$old/$file" ] || cp "$old/$file" "$new/.git/$file"
done
for key in user.name user.email core.autocrlf core.eol core.symlinks core.sparseCheckout; do
    value=$(git config "$key") && git config -f "$new/.git/config" "$key" "$value" || true
done
git config -f "$new/.git/config" core.fileMode false
[ ! -d "$old/modules" ] || mv "$old/modules" "$new/.git/modules"
export GIT_DIR="$new/.git"
git update-ref refs/heads/main "$commit"
git symbolic-ref HEAD refs/heads/main
sed 's/^\\([^ ]*\\) \\(.*\\)/create \\2 \\1/' "$tags" | git update-ref --stdin
unset GIT_DIR
mv "$new/.git" "$old.sealed"
rm -rf "$old"
mv "$old.sealed" "$old"
git reset -q
rm -rf "$old/logs" "$old/ORIG_HEAD"
# Only the owner writes: the edit gate counts on it.
find . -path ./.git -prune -o ! -type l -perm /022 -exec chmod go-w {} +
find . -path ./.git -prune -o ! -type l ! -perm -444 -exec chmod a+rX {} +
chmod go-w .
"""
_TREE = """
folder=$(mktemp -d)
cp "$(git rev-parse --absolute-git-dir)/index" "$folder/index"
GIT_INDEX_FILE=$folder/index git add -A >/dev/null
GIT_INDEX_FILE=$folder/index git write-tree
rm -rf "$folder"
"""
_CHANGED = """
tree=$1; before=$PWD/$2/before; after=$PWD/$2/after
mkdir -p "$before" "$after"
git config core.fileMode false
GIT_INDEX_FILE=$before.index git read-tree "$tree"
cp "$before.index" "$after.index"
export GIT_INDEX_FILE=$after.index
git add -A
changed() {
    git diff --cached --name-only -z --no-renames --no-ext-diff --ignore-submodules \
        --diff-filter="$1" "$tree"
}
put() { git checkout-index -q -f -z --stdin --prefix="$1/"; }
changed DMT | GIT_INDEX_FILE=$before.index put "$before"
changed AMT | put "$after"
"""
_APPLY = """
patch=$(mktemp)
cat >"$patch"
git apply --whitespace=nowarn "$patch" && { rm -f "$patch"; exit 0; }
command -v patch >/dev/null || exit 1
patch --batch --forward --fuzz=5 -p1 --dry-run -i "$patch" >/dev/null || exit 1
patch --batch --forward --fuzz=5 -p1 --no-backup-if-mismatch -i "$patch"
rm -f "$patch"
"""
_CHECK_OUT = """
git config --global --replace-all safe.directory '*'
git config core.fileMode false
git checkout -q -f --detach "$1"
git clean -q -f -d
"""
_PUT_BACK = """
ref=$1; shift
git cat-file -e "$ref^{commit}" 2>/dev/null || ref=HEAD
for file in "$@"; do
    if git cat-file -e "$ref:$file" 2>/dev/null; then git checkout -q "$ref" -- "$file"
    else rm -rf "$file"; git rm -q --cached --ignore-unmatch -- "$file"; fi
done
"""


def check_out(sandbox: Sandbox, commit: str, patches: Sequence[str]) -> None:
    """Set the workspace to a commit with patches applied; files that git ignores stay. Raises
    SandboxUnavailable if the repository lacks the commit, PatchError."""
    _git(sandbox, _CHECK_OUT, commit)
    for patch in patches:
        apply_with_git(sandbox, patch)


def seal_history(sandbox: Sandbox, base_commit: str) -> None:
    """Remove everything from the workspace's repository except the history of `base_commit`.

    HEAD becomes the current tree, with the base commit as parent, or with none if the repository
    lacks that commit's full history. Tags in that history stay, because versions are computed from
    them. Raises SandboxUnavailable if there is no repository of its own, or no git.
    """
    _git(sandbox, _SEAL, base_commit)


def apply_with_git(sandbox: Sandbox, patch: str) -> None:
    """Apply a patch as SWE-bench does: with git, else with `patch` and fuzz. Raises PatchError."""
    if "diff --git" not in patch and "--- " not in patch:
        return
    argv = ["sh", "-c", _PRELUDE + _APPLY, "sh"]
    result = sandbox.run(Command(argv, stdin=patch.encode(), timeout=GIT_TIMEOUT))
    if result.exit_code:
        raise PatchError(f"can't be applied: {result.output.strip()[-2000:]}")


def lay_out_patch(sandbox: Sandbox, patch: str, files: Sequence[str], base_commit: str) -> None:
    """Reset files to a commit, and apply the patch that changes them. Raises PatchError,
    SandboxUnavailable."""
    _git(sandbox, _PUT_BACK, base_commit, *files)
    apply_with_git(sandbox, patch)


def tree_of(sandbox: Sandbox) -> str:
    """The id of the workspace's current tree, without ignored files."""
    return _git(sandbox, _TREE).strip().splitlines()[-1]


def changed_files(sandbox: Sandbox, tree: str) -> tuple[Mapping[str, bytes], Mapping[str, bytes]]:
    """The files that differ from an earlier tree: before and after. Raises SandboxFileError if the
    repository no longer exists."""
    with scratch_folder(sandbox, ".git") as folder:
        try:
            _git(sandbox, _CHANGED, tree, folder)
        except SandboxUnavailable as error:
            raise SandboxFileError(str(error)) from error
        return sandbox.read_tree(f"{folder}/before"), sandbox.read_tree(f"{folder}/after")


def tracked_files(sandbox: Sandbox, *patterns: str) -> list[str]:
    """The files that git tracks, by git's patterns (`*.py` matches in every folder)."""
    return [unquote(line) for line in _git(sandbox, 'git ls-files -- "$@"', *patterns).splitlines()]


def _git(sandbox: Sandbox, script: str, *arguments: str) -> str:
    result = capture(sandbox, _PRELUDE + script, *arguments, timeout=GIT_TIMEOUT)
    if result.exit_code == 127:
        raise SandboxUnavailable(
            f"the image has no git, which {sandbox.workspace} is to be kept and compared with: "
            "add git to it"
        )
    if result.timed_out:
        raise SandboxUnavailable(f"git took more than {GIT_TIMEOUT:g} s in {sandbox.workspace}")
    if result.exit_code:
        raise SandboxUnavailable(
            f"{sandbox.workspace} of the image can't be used as a git repository: "
            f"{result.output.strip()[-2000:]}"
        )
    return result.output
