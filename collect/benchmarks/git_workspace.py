"""Workspaces that are git repositories in an image: hide future history, apply and extract patches.

git does all the work inside the sandbox, because such a tree may have thousands of files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from collect.code.patches import PatchError, unquote
from sandbox import Command, Sandbox
from sandbox.errors import SandboxFileError, SandboxUnavailable
from sandbox.shell import capture, scratch_folder

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
    """Set the workspace to a commit with patches applied; files that git ignores stay.

    Raises SandboxUnavailable if the repository lacks the commit, PatchError.
    """
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
    """Apply a patch as SWE-bench does: with git, else with `patch` and some fuzz.

    Raises PatchError.
    """
    if "diff --git" not in patch and "--- " not in patch:
        return
    command = Command(
        ["sh", "-c", _PRELUDE + _APPLY, "sh"], stdin=patch.encode(), timeout=GIT_TIMEOUT
    )
    result = sandbox.run(command)
    if result.exit_code:
        raise PatchError(f"can't be applied: {result.output.strip()[-2000:]}")


def lay_out_patch(sandbox: Sandbox, patch: str, files: Sequence[str], base_commit: str) -> None:
    """Reset files to a commit, and apply the patch that changes them.

    Raises PatchError, SandboxUnavailable.
    """
    _git(sandbox, _PUT_BACK, base_commit, *files)
    apply_with_git(sandbox, patch)


def tree_of(sandbox: Sandbox) -> str:
    """The id of the workspace's current tree, without ignored files."""
    return _git(sandbox, _TREE).strip().splitlines()[-1]


def changed_files(sandbox: Sandbox, tree: str) -> tuple[Mapping[str, bytes], Mapping[str, bytes]]:
    """The files that differ from an earlier tree: before and after.

    Raises SandboxFileError if the repository no longer exists.
    """
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
