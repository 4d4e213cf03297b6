"""Git commands, run so that the repository decides nothing: no program, no connection.

A repository may come with a project from a stranger: its settings name programs (fsmonitor, hooks,
filters, a transport), its files lead to other repositories.  Git is started from an argument list,
in an environment of few variables, with a limit on time and output.  The settings of the user and
of the machine hold, as they say whose repositories may be read (`safe.directory`); each that names
a program is overridden.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from odfbuild.errors import ProjectError
from odfbuild.host.files import read_regular
from odfbuild.host.pipes import is_readable
from odfbuild.texts.redaction import excerpt
from odfbuild.values import dataclass

TIMEOUT = 60  # seconds for one command
_MOST = 64 * 1024 * 1024  # bytes of one answer
_SHOWN = 300  # characters of what git says in an error
_SETTINGS = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.untrackedCache=false",
    "core.sshCommand=false",
    "core.askPass=false",
    "core.pager=cat",
    "core.editor=false",
    "core.gitProxy=",
    "core.alternateRefsCommand=false",
    "credential.helper=",
    "diff.external=",
    "gc.auto=0",
    "gpg.program=false",
    "log.showSignature=false",
    "maintenance.auto=false",
    "protocol.allow=never",
    "safe.bareRepository=explicit",
    "submodule.recurse=false",
)
_KEPT = (  # of the user: where programs, settings and temporary files are
    "HOME",
    "XDG_CONFIG_HOME",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "DEVELOPER_DIR",
    "SUDO_UID",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CEILING_DIRECTORIES",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM",
)
_FIXED = {
    "GIT_ALLOW_PROTOCOL": "no-protocol",  # of any name: settings of a protocol do not count then
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_PAGER": "cat",
    "LC_ALL": "C",
}


class GitError(ProjectError):
    """A revision of the project's repository cannot be read."""

    code = "git"


class NoGitError(GitError):
    """There is no program git."""

    def __init__(self) -> None:
        super().__init__(
            what="git is not installed",
            why="it is needed to read revisions and packages, and searched in the absolute "
            "folders of PATH",
            fix="install git; without it, compare with the workspace, and use packages by path",
        )


class GitTimeoutError(GitError):
    """Git did not answer in time."""


class NoRepositoryError(GitError):
    """A folder lies in no git repository."""


class ForeignRepositoryError(GitError):
    """The git repository of the project's folder is another one, or refers to another."""

    code = "git-elsewhere"


@dataclass(frozen=True, slots=True)
class GitResult:
    """How a command ended and what it printed; `cut` when that was more than it may be."""

    code: int
    out: bytes
    err: bytes
    cut: bool = False

    @property
    def message(self) -> str:
        """The last error that it printed, short and without control characters."""
        lines = [line for line in self.err.decode(errors="replace").splitlines() if line.strip()]
        named = [line for line in lines if line.startswith(("fatal: ", "error: "))] or lines
        last = ascii(named[-1])[1:-1] if named else f"it ended with {self.code}"
        return excerpt(last, _SHOWN + 3)


@dataclass(frozen=True, slots=True)
class WorkTree:
    """The top folder of a repository, its own folder there, and that of all its work trees."""

    top: Path
    own: Path
    common: Path
    prefix: str

    @classmethod
    def of(cls, folder: Path) -> "WorkTree":
        """Return the repository that a folder lies in; `prefix` is the way to it, with a slash.

        Raises NoRepositoryError, ForeignRepositoryError when the repository is not the folder's.
        """
        names = ("--show-toplevel", "--absolute-git-dir", "--git-common-dir", "--show-prefix")
        lines = os.fsdecode(_read(folder, "rev-parse", *names)).split("\n")
        if len(lines) != len(names) + 1:
            raise GitError(
                what="the name of the repository's folder has a line break",
                why="git prints names line by line",
                fix="rename the folder",
            )
        top, own, common = (Path(folder, each).resolve() for each in lines[:3])
        found = cls(top, own, common, lines[3])
        found._check()
        return found

    def read(self, *arguments: str, given: bytes = b"", most: int = _MOST) -> bytes:
        """Return what a command prints about this repository.  Raises GitError."""
        return _read(self.top, *arguments, given=given, most=most)

    def settings(self, pattern: str) -> tuple[str, ...]:
        """Return the names of the settings that match a regular expression, whoever set them."""
        answer = _run(self.top, ["config", "--null", "--name-only", "--get-regexp", pattern])
        return tuple(os.fsdecode(answer.out).split("\0")[:-1])

    def is_changed(self, folder: Path) -> bool:
        """Tell whether files in a folder differ from the commit; no filter is asked about that."""
        switched_off: list[str] = []
        for each in self.settings(r"^filter\."):
            if "=" in each:
                raise GitError(
                    what=f"the repository has a filter that cannot be switched off: {each!a}",
                    why="a filter runs a program, and its name has the character =",
                    fix="remove the filter from the settings of git",
                )
            value = "false" if each.endswith(".required") else ""
            switched_off += ["-c", f"{each}={value}"]
        status = ("--porcelain", "-z", "--no-renames", "--ignore-submodules=dirty")
        answer = _run(
            folder,
            [*switched_off, "status", *status, "--untracked-files=normal", "--", "."],
            most=1,
        )
        if answer.code and not answer.cut:
            raise _failure("status", answer)
        return bool(answer.out)

    def check_objects(self) -> None:
        """Refuse a repository that takes objects from another one.  Raises the error of that.

        What `--against` reads is shown in plans and comments: with another repository's objects
        behind it, that repository could be read by whoever made this one.
        """
        objects = self.common / "objects"
        linked = next(_links(objects), None)
        alternates = objects / "info" / "alternates"
        if linked is None and not os.path.lexists(alternates):
            return
        raise ForeignRepositoryError(
            what=f"the repository takes objects from elsewhere: {linked or alternates}",
            why="a revision is only read from the project's own repository",
            fix="copy the objects: git repack -a -d; then remove the file objects/info/alternates,"
            " or clone with --dissociate",
        )

    def _check(self) -> None:
        """Refuse a repository that does not know that it is this folder's."""
        marker = self.top / ".git"
        if marker.is_dir() and not marker.is_symlink():
            known = marker.resolve() == self.own
        else:
            known = os.path.lexists(marker) and self._points_back(marker)
        if not known or self.common not in (self.own, self.own.parent.parent):
            raise ForeignRepositoryError(
                what=f"the repository of {self.top} is {self.own}, which is not its own",
                why="a folder from someone else could refer to any repository",
                fix="if this is intended: git config core.worktree FOLDER in that repository, or "
                "git worktree repair",
            )

    def _points_back(self, marker: Path) -> bool:
        """Tell whether the folder of a work tree or of a submodule names the one that names it."""
        back = self.own / "gitdir"
        if self.own.parent == self.common / "worktrees" and back.is_file():
            named = Path(self.own, os.fsdecode(read_regular(back)).rstrip("\n"))
            return named.parent.resolve() == marker.parent.resolve() and named.name == marker.name
        named_in = _run(self.top, ["config", "--null", "--get", "core.worktree"]).out
        named_top = Path(self.own, os.fsdecode(named_in.rstrip(b"\0")))
        return bool(named_in) and named_top.resolve() == self.top


def run(
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    *,
    given: bytes = b"",
    most: int = _MOST,
    timeout: float = TIMEOUT,
) -> GitResult:
    """Run git in a folder with nobody to ask; it and all that it starts end with it.

    Raises NoGitError, GitTimeoutError.
    """
    program = shutil.which("git", path=searched())
    if program is None:
        raise NoGitError
    with TemporaryFile() as source, TemporaryFile() as errors:
        source.write(given)
        source.seek(0)
        process = subprocess.Popen(
            [program, *arguments], cwd=folder, env=environment, stdin=source,
            stdout=subprocess.PIPE, stderr=errors, start_new_session=True,
        )  # fmt: skip
        until = time.monotonic() + timeout
        with process:
            try:
                assert process.stdout is not None  # noqa: S101 - it is a pipe
                out, cut = _output(process.stdout, most, until)
                if cut:
                    _end(process)
                process.wait(max(0, until - time.monotonic()))
            except (TimeoutError, subprocess.TimeoutExpired):
                _end(process)
                raise GitTimeoutError(
                    what=f"git did not end within {timeout:g} s",
                    why="the repository does not answer, is very large, or has a file that blocks",
                    fix="try it manually: git status, git ls-remote",
                ) from None
            except BaseException:
                _end(process)
                raise
        errors.seek(max(0, errors.seek(0, os.SEEK_END) - 64 * 1024))
        return GitResult(process.returncode, out, errors.read(), cut)


def searched() -> str:
    """Return the folders of PATH that are absolute: no other one may lie in the project."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(each for each in folders if each.startswith("/"))


def _output(pipe: IO[bytes], most: int, until: float) -> tuple[bytes, bool]:
    """Return the first bytes of a pipe, and whether there were more.  Raises TimeoutError."""
    found = bytearray()
    while len(found) <= most:
        if not is_readable(pipe, until - time.monotonic()):
            raise TimeoutError
        data = os.read(pipe.fileno(), 1 << 20)
        if not data:
            return bytes(found), False
        found += data
    return bytes(found[:most]), True


def _run(
    folder: Path, arguments: Sequence[str], *, given: bytes = b"", most: int = _MOST
) -> GitResult:
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    settings = [word for each in _SETTINGS for word in ("-c", each)]
    return run(
        ["--no-pager", *settings, *arguments],
        folder,
        {"PATH": searched(), **kept, **_FIXED},
        given=given,
        most=most,
        timeout=TIMEOUT,
    )


def _read(folder: Path, *arguments: str, given: bytes = b"", most: int = _MOST) -> bytes:
    answer = _run(folder, arguments, given=given, most=most)
    if answer.cut:
        raise GitError(
            what=f"git {arguments[0]} printed more than {most:,} bytes",
            why="this is more than a project needs; a crafted repository could print without end",
            fix="remove large folders from the repository",
        )
    if answer.code:
        raise _failure(arguments[0], answer)
    return answer.out


def _failure(command: str, answer: GitResult) -> GitError:
    if "not a git repository" in answer.message:
        return NoRepositoryError(
            what=f"git {command} failed: {answer.message}",
            why="the project's folder must be in a git repository",
            fix="run git status in the project's folder",
        )
    return GitError(
        what=f"git {command} failed: {answer.message}",
        why="the repository cannot be read as it is",
        fix="run git status in the project's folder, and git fsck",
    )


def _links(folder: Path) -> Iterator[Path]:
    """Yield a folder if it is a link, and each link below it, however deep."""
    if folder.is_symlink():
        yield folder
        return
    for place, folders, files in os.walk(folder):
        yield from (each for name in (*folders, *files) if (each := Path(place, name)).is_symlink())


def _end(process: "subprocess.Popen[bytes]") -> None:
    os.killpg(process.pid, signal.SIGKILL)
