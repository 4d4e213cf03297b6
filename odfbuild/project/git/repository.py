"""Files of one commit of a git repository, near or far, without a checkout.

Nothing of the repository is run or applied: no hooks, filters, attributes or submodules, and no
protocol but https, ssh and plain files.  Git is started from argument lists, with a time limit.
"""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from odfbuild.errors import ProjectError
from odfbuild.project.config.packages import is_path
from odfbuild.project.git import GitError, GitResult, run, searched
from odfbuild.project.git.tree import (
    MAX_BYTES,
    MAX_FILES,
    TreeEntry,
    TreeError,
    belongs,
    check_entry,
    check_names,
)
from odfbuild.values import dataclass

TIMEOUT = 300  # seconds for one conversation with a repository
_MOST = 2 * MAX_BYTES  # bytes of one answer: what may be in a package, and its names
_LISTING = MAX_FILES * 512  # bytes of the names of all files
_PROTOCOLS = "https:ssh:file"
_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "fetch.recurseSubmodules=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "advice.detachedHead=false",
)
_ENV = {
    "GIT_ALLOW_PROTOCOL": _PROTOCOLS,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_HTTP_LOW_SPEED_LIMIT": "100",
    "GIT_HTTP_LOW_SPEED_TIME": "60",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "LC_ALL": "C",
}
_NOT_OURS = re.compile(  # of the repository that a hook or an alias may be in
    r"GIT_(ALTERNATE_OBJECT_DIRECTORIES|DIR|WORK_TREE|INDEX_FILE|OBJECT_DIRECTORY|PREFIX"
    r"|COMMON_DIR|NAMESPACE|GRAFT_FILE|SHALLOW_FILE|IMPLICIT_WORK_TREE|REPLACE_REF_BASE)"
)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)(://|::)")
_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/+#-]*")
_ABSENT = re.compile(
    r"couldn't find remote ref|not our ref|unadvertised object|no such remote ref|"
    r"does not allow request"
)
_FILE, _EXECUTABLE, _LINK = "100644", "100755", "120000"


class PackageGitError(ProjectError):
    """A package cannot be fetched from its repository."""

    code = "package-git"


def address(git: str, root: Path) -> str:
    """Return where git is to look; a path is relative to the project.

    Raises PackageGitError for protocols that may run programs or that anybody can listen to.
    """
    scheme = _SCHEME.match(git)
    if scheme and (scheme[1].lower() not in _PROTOCOLS.split(":") or scheme[2] == "::"):
        raise PackageGitError(
            what=f"packages are not fetched with the protocol '{scheme[1]}'",
            why="transfers over the network must be encrypted, and must not start programs",
            fix="use an address with https:// or ssh://, or a path",
        )
    if git.startswith("-") or not git.isprintable():
        raise PackageGitError(
            what=f"'{ascii(git)[1:-1]}' is not the address of a repository",
            why="git would read it as something else",
            fix="correct `packages` in odfbuild.yaml",
        )
    return str((root / git).resolve()) if is_path(git) else git


@dataclass(frozen=True, slots=True)
class Repository:
    """An empty folder to fetch into, and the address to fetch from; use it for one package."""

    folder: Path
    address: str

    def fetch(self, revision: str) -> str:
        """Fetch a branch, a tag or a commit; return the commit's full hash.

        Raises PackageGitError in words: no git, no such repository or revision, no network.
        """
        if not _REVISION.fullmatch(revision) or ".." in revision:
            raise _unknown(self.address, revision)
        self._git("init", "--quiet", "--bare", "--template=")
        fetch = ("fetch", "--quiet", "--no-tags", "--no-recurse-submodules")
        try:
            self._git(*fetch, "--depth=1", "--", self.address, revision)
            return self._commit("FETCH_HEAD", revision)
        except _AbsentError:
            pass
        everything = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
        self._git(*fetch, "--", self.address, *everything)
        return self._commit(revision, revision)

    def files(self, commit: str) -> Iterator[TreeEntry]:
        """Yield the files and links of a commit that belong to a package, each checked.

        Raises TreeError for what is not safe to take over.
        """
        listed = list(self._files_of(commit))
        check_names([path for path, _, _ in listed])
        for (path, mode, _), content in zip(listed, self._contents(listed), strict=True):
            entry = TreeEntry(path, content, is_link=mode == _LINK)
            check_entry(entry)
            yield entry

    def _commit(self, name: str, revision: str) -> str:
        try:
            found = self._git(
                "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"
            )
        except PackageGitError:
            raise _unknown(self.address, revision) from None
        return found.decode().strip()

    def _files_of(self, commit: str) -> Iterator[tuple[str, str, str]]:
        """Yield path, mode and object of each file; submodules are left out."""
        listing = self._git("ls-tree", "-r", "-l", "-z", "--full-tree", commit, most=_LISTING)
        left, count = MAX_BYTES, 0
        for line in listing.split(b"\0")[:-1]:
            facts, _, name = line.partition(b"\t")
            mode, _, id, size = facts.decode().split()
            path = os.fsdecode(name)
            if mode not in (_FILE, _EXECUTABLE, _LINK) or not _is_part(path):
                continue
            left, count = left - int(size), count + 1
            if left < 0 or count > MAX_FILES:
                raise TreeError(f"it has more than {MAX_FILES:,} files or {MAX_BYTES:,} bytes")
            yield path, mode, id

    def _contents(self, listed: Sequence[tuple[str, str, str]]) -> Iterator[bytes]:
        wanted = "".join(f"{id}\n" for _, _, id in listed).encode()
        answer = self._git("cat-file", "--batch", given=wanted)
        at = 0
        for path, _, id in listed:
            end = answer.index(b"\n", at)
            if answer[at:end].endswith(b" missing"):
                message = f"the object {id} of {path!a} is missing"
                raise PackageGitError(*_words(self.address, message))
            size = int(answer[at:end].split()[2])
            yield answer[end + 1 : end + 1 + size]
            at = end + 1 + size + 1

    def _git(self, *arguments: str, given: bytes = b"", most: int = _MOST) -> bytes:
        settings = [word for each in _SETTINGS for word in ("-c", each)]
        command = [*settings, f"--git-dir={self.folder}", *arguments]
        answer = _run(command, self.folder, given, most)
        if answer.cut:
            raise TreeError(f"git listed its files with more than {most:,} bytes")
        if answer.code == 0:
            return answer.out
        if _ABSENT.search(answer.err.decode(errors="replace")):
            raise _AbsentError(*_words(self.address, answer.message))
        raise PackageGitError(*_words(self.address, answer.message))


class _AbsentError(PackageGitError):
    """The repository does not give the revision when asked for it by itself."""


def _is_part(path: str) -> bool:
    """Leave dot files out, but no `..` of a tree made by hand: those are to be refused."""
    return belongs(path) or any(part in (".", "..") for part in path.split("/"))


def _run(arguments: Sequence[str], folder: Path, given: bytes, most: int) -> GitResult:
    """Run git as the user would: with the user's keys, proxies and certificates."""
    env = {name: text for name, text in os.environ.items() if not _NOT_OURS.fullmatch(name)}
    try:
        return run(
            arguments,
            folder,
            {**env, **_ENV, "PATH": searched()},
            given=given,
            most=most,
            timeout=TIMEOUT,
        )
    except GitError as error:
        raise PackageGitError(error.what, error.why, error.fix) from None


def _words(address: str, message: str) -> tuple[str, str, str]:
    return (
        f"git cannot fetch from {address}: {message}",
        "the repository does not exist, cannot be read, or the network is down",
        "try it manually: git ls-remote; if the address is wrong, correct `packages`",
    )


def _unknown(address: str, revision: str) -> PackageGitError:
    return PackageGitError(
        what=f"no revision '{ascii(revision)[1:-1]}' in {address}",
        why="a package is pinned to a tag, a branch or a commit of its repository",
        fix="correct `rev` in odfbuild.yaml; git ls-remote lists the tags and branches",
    )
