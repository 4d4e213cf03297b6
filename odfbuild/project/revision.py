"""The files of a project as they were in a revision of its git repository.

Only what a project is loaded from is taken: text of known kinds, of any folder of the repository,
so that packages beside the project are found, too.  Nothing of the working folder is touched.
"""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from odfbuild.errors import ProjectError

__all__ = ["GitError", "Revision", "at_revision", "git_state"]

_SUFFIXES = (".yaml", ".yml", ".j2", ".sql", ".csv", ".py", ".lock")
_MAX_BYTES = 16 * 1024 * 1024
_TIMEOUT = 120
_FILE, _EXECUTABLE = "100644", "100755"


class GitError(ProjectError):
    """A revision of the project's repository cannot be read."""

    code = "git"


@dataclass(frozen=True, slots=True)
class Revision:
    """A project's folder with the files of one commit, for as long as it is open."""

    root: Path
    commit: str


@contextmanager
def at_revision(root: Path, name: str) -> Iterator[Revision]:
    """Give the project at `root` as it was in a revision.  Raises GitError."""
    top = Path(_git(root, "rev-parse", "--show-toplevel").decode().rstrip("\n"))
    commit = _commit(root, name)
    with TemporaryDirectory(prefix="odfbuild-") as folder:
        _lay_out(top, commit, Path(folder))
        yield Revision(Path(folder) / root.resolve().relative_to(top.resolve()), commit)


def git_state(root: Path) -> tuple[str, bool] | None:
    """Return the commit that a folder stands on and whether its files differ from it.

    None where there is no repository, or no git.
    """
    try:
        commit = _git(root, "rev-parse", "--verify", "--quiet", "HEAD").decode().strip()
        status = _git(root, "status", "--porcelain", "--untracked-files=normal", "--", ".")
    except GitError:
        return None
    return commit, bool(status)


def _commit(root: Path, name: str) -> str:
    try:
        found = _git(
            root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"
        )
    except GitError:
        raise GitError(
            what=f"no revision '{name}' in the repository",
            why="the project is compared with a commit, a branch or a tag that git knows",
            fix="check the name; in CI, fetch it first: a shallow clone holds one commit only",
        ) from None
    return found.decode().strip()


def _lay_out(top: Path, commit: str, folder: Path) -> None:
    """Write the files of a commit below a folder, in one conversation with git."""
    files = [(name, id) for name, id, size in _tree(top, commit) if size <= _MAX_BYTES]
    for name, data in _contents(top, files):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def _tree(top: Path, commit: str) -> Iterator[tuple[str, str, int]]:
    """Yield the name, object and size of each plain file that a project may be loaded from."""
    listing = _git(top, "ls-tree", "-r", "-l", "-z", "--full-tree", commit)
    for entry in listing.split(b"\0")[:-1]:
        facts, _, name = entry.partition(b"\t")
        mode, _, id, size = facts.decode().split()
        path = os.fsdecode(name)
        if mode in (_FILE, _EXECUTABLE) and path.endswith(_SUFFIXES) and _is_inside(path):
            yield path, id, int(size)


def _is_inside(path: str) -> bool:
    """Tell whether a name stays below a folder: a tree made by hand may hold others."""
    parts = PurePosixPath(path)
    return not parts.is_absolute() and ".." not in parts.parts


def _contents(top: Path, files: Sequence[tuple[str, str]]) -> Iterator[tuple[str, bytes]]:
    wanted = "".join(f"{id}\n" for _, id in files).encode()
    answer = memoryview(_git(top, "cat-file", "--batch", given=wanted))
    at = 0
    for name, _ in files:
        end = at + bytes(answer[at : at + 200]).index(b"\n")
        size = int(bytes(answer[at:end]).split()[2])
        yield name, bytes(answer[end + 1 : end + 1 + size])
        at = end + 1 + size + 1


def _git(folder: Path, *arguments: str, given: bytes = b"") -> bytes:
    try:
        done = subprocess.run(
            ["git", *arguments],  # noqa: S607
            cwd=folder,
            input=given,
            capture_output=True,
            timeout=_TIMEOUT,
            check=False,
        )
    except FileNotFoundError:
        raise GitError(
            what="git is not installed",
            why="an earlier revision of the project is read with it",
            fix="install git, or compare with the workspace: odfbuild plan",
        ) from None
    except subprocess.TimeoutExpired:
        raise GitError(
            what=f"git {arguments[0]} did not end within {_TIMEOUT} s",
            why="the repository may be on a disk that does not answer",
            fix="try the command by hand",
        ) from None
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise GitError(
            what=f"git {arguments[0]} failed: {said[-1] if said else done.returncode}",
            why="the project's folder must be in a git repository",
            fix="run git status in the project's folder",
        )
    return done.stdout
