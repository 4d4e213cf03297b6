"""The files of a project as they were in a revision of its git repository.

Only what a project is loaded from is taken: text of known kinds, of any folder of the repository,
so that packages beside the project are found, too.  Nothing of the working folder is touched, and
nothing is fetched: what the repository lacks is an error.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from odfbuild.project.git import GitError, NoGitError, NoRepositoryError, WorkTree
from odfbuild.texts.redaction import excerpt
from odfbuild.values import dataclass

_SUFFIXES = (".yaml", ".yml", ".j2", ".sql", ".csv", ".py", ".lock")
_MAX_BYTES = 16 * 1024 * 1024
_MAX_TOGETHER = 512 * 1024 * 1024
_HEADER = 200  # bytes: what git writes before and after each object
_FILE, _EXECUTABLE = "100644", "100755"
_PARTIAL = r"^(extensions\.partialclone|remote\..*\.(promisor|partialclonefilter))$"


class MissingGitObjectError(GitError):
    """Objects of a commit are not in the repository, or are damaged."""

    code = "git-missing"


@dataclass(frozen=True, slots=True)
class Revision:
    """A project's folder with the files of one commit, for as long as it is open."""

    root: Path
    commit: str


@contextmanager
def at_revision(root: Path, name: str) -> Iterator[Revision]:
    """Give the project at `root` as it was in a revision.  Raises GitError."""
    tree = WorkTree.of(root)
    tree.check_objects()
    commit = _commit(tree, name)
    with TemporaryDirectory(prefix="odfbuild-") as folder:
        _lay_out(tree, commit, Path(folder))
        yield Revision(Path(folder) / tree.prefix, commit)


def git_state(root: Path) -> tuple[str, bool] | None:
    """Return the commit that a folder stands on and whether its files differ from it.

    None where there is no repository, no commit yet, or no git.  Raises GitError.
    """
    try:
        tree = WorkTree.of(root)
    except (NoGitError, NoRepositoryError):
        return None
    commit = _object(tree, "HEAD")
    return None if commit is None else (commit, tree.is_changed(root))


def _object(tree: WorkTree, name: str) -> str | None:
    """Return the hash of what a name means, None when it means nothing."""
    try:
        found = tree.read("rev-parse", "--verify", "--quiet", "--end-of-options", name)
    except GitError:
        return None
    return found.decode().strip()


def _commit(tree: WorkTree, name: str) -> str:
    found = _object(tree, f"{name}^{{commit}}")
    if found is not None:
        return found
    named = _object(tree, name)
    if named is not None and named != name.lower() and _is_missing(tree, named):
        raise _missing(tree, named, "it is named by a branch or a tag")
    raise GitError(
        what=f"no revision '{name}' in the repository",
        why="the project is compared with a commit, a branch or a tag that git knows",
        fix="check the name; in CI, fetch it first: a shallow clone holds one commit only",
    )


def _is_missing(tree: WorkTree, id: str) -> bool:
    return tree.read("cat-file", "--batch-check", given=f"{id}\n".encode()).endswith(b" missing\n")


def _lay_out(tree: WorkTree, commit: str, folder: Path) -> None:
    """Write the files of a commit below a folder, in one conversation with git."""
    for name, data in _contents(tree, commit, list(_files_to_take(tree, commit))):
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        except OSError as error:
            raise GitError(
                what=f"the file {excerpt(ascii(name), 80)} of {commit[:12]} cannot be written: "
                f"{error.strerror}",
                why="a tree that git did not make may name a file and a folder alike, or too long",
                fix="compare with a revision that can be checked out on this machine",
            ) from None


def _files_to_take(tree: WorkTree, commit: str) -> Iterator[tuple[str, str, int]]:
    """Yield name, object and size of each file to take; those that are too large are left out."""
    files = list(_files(tree, commit))
    wanted = "".join(f"{id}\n" for _, id in files).encode()
    sizes = tree.read("cat-file", "--batch-check", given=wanted).splitlines()
    together = 0
    for (name, id), facts in zip(files, sizes, strict=True):
        if facts.endswith(b" missing"):
            raise _missing(tree, id, f"it is the file {name!a} of {commit[:12]}")
        size = int(facts.split()[2])
        if size <= _MAX_BYTES:
            together += size
            yield name, id, size
    if together > _MAX_TOGETHER:
        raise GitError(
            what=f"the files of {commit[:12]} have {together:,} bytes",
            why=f"definitions, templates and queries may have {_MAX_TOGETHER:,} together",
            fix="keep data out of the repository",
        )


def _files(tree: WorkTree, commit: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the object of each plain file that a project may be loaded from."""
    try:
        listing = tree.read("ls-tree", "-r", "-z", "--full-tree", commit)
    except GitError as error:
        raise _missing(tree, commit, error.what) from None
    for entry in listing.split(b"\0")[:-1]:
        facts, _, name = entry.partition(b"\t")
        mode, _, id = facts.decode().split()
        path = os.fsdecode(name)
        if mode in (_FILE, _EXECUTABLE) and path.lower().endswith(_SUFFIXES) and _is_inside(path):
            yield path, id


def _is_inside(path: str) -> bool:
    """Tell whether a name stays below a folder: a tree made by hand may hold others."""
    parts = PurePosixPath(path)
    return not parts.is_absolute() and ".." not in parts.parts


def _contents(
    tree: WorkTree, commit: str, files: Sequence[tuple[str, str, int]]
) -> Iterator[tuple[str, bytes]]:
    wanted = "".join(f"{id}\n" for _, id, _ in files).encode()
    most = sum(size + _HEADER for _, _, size in files)
    try:
        answer = memoryview(tree.read("cat-file", "--batch", given=wanted, most=most))
    except GitError as error:
        raise _missing(tree, commit, error.what) from None
    at = 0
    for name, _, size in files:
        start = at + bytes(answer[at : at + _HEADER]).index(b"\n") + 1
        yield name, bytes(answer[start : start + size])
        at = start + size + 1


def _missing(tree: WorkTree, id: str, where: str) -> MissingGitObjectError:
    partial = tree.settings(_PARTIAL)
    return MissingGitObjectError(
        what=f"the repository lacks the object {id}, or cannot read it: {where}",
        why=(
            "nothing is fetched to read a revision, as the repository would decide from where and "
            "how"
        )
        + (f"; it is a partial clone ({ascii(partial[0])[1:-1]})" if partial else ""),
        fix="fetch it first: clone without --filter, or git fetch --unshallow; then git fsck",
    )
