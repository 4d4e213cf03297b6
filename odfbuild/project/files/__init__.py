"""Text files of a project or a package: read once, bounded, and never from outside of it."""

import os
from dataclasses import field
from pathlib import Path, PurePosixPath
from posixpath import normpath

from odfbuild.errors import Diagnostic, ProjectErrors, SourceSpan
from odfbuild.host.files import read_regular
from odfbuild.host.reading_session import reading_session, unsaved_text
from odfbuild.project.yaml import decode
from odfbuild.project.yaml.places import SourceText
from odfbuild.project.yaml.rules import YamlRule
from odfbuild.values import dataclass


def leads_out(root: Path, path: Path) -> bool:
    """Tell whether a path is a link out of a folder; one that leads in a circle is not."""
    try:
        return path.is_symlink() and not path.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError):  # Python 3.11 and 3.12 raise the latter
        return False


def is_own_folder(root: Path, folder: str) -> bool:
    """Tell whether there is such a folder below another one, with no link on the way to it."""
    path = root / folder
    real = os.path.realpath(root)
    return path.is_dir() and os.path.realpath(path) == os.path.normpath(
        f"{real}/{normpath(folder)}"
    )


MAX_BYTES = 16 * 1024 * 1024


class UnreadableError(Exception):
    """A file cannot be taken in; the rule says why."""

    def __init__(self, rule: YamlRule) -> None:
        super().__init__(rule.what)
        self.rule = rule

    def at(self, span: SourceSpan) -> ProjectErrors:
        """Return the finding at a place."""
        rule = self.rule
        return ProjectErrors(
            [Diagnostic(code=rule.code, what=rule.what, why=rule.why, fix=rule.fix, span=span)]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """The folder that files belong to: the project's, or that of one of its packages.

    Names are relative to it, with forward slashes; `prefix` is before them in messages.
    """

    root: Path
    prefix: str = ""
    package: str | None = None
    datasets: tuple[str, ...] = ("datasets",)
    macros: str = "macros"
    sql: str = "sql"
    _sources: dict[str, SourceText] = field(default_factory=dict, compare=False, repr=False)
    _folders: dict[str, bool] = field(default_factory=dict, compare=False, repr=False)

    def shown(self, name: str) -> str:
        """Return how a file is called in messages: relative to the project."""
        return self.prefix + name

    def read(self, name: str) -> SourceText:
        """Return a file that is listed; links to files are followed, but not out of the folder.

        Raises UnreadableError, or ProjectErrors if it is not text.
        """
        session = reading_session()
        if session is None:
            return self._read(name)
        return session.once((self.root, self.prefix, name), lambda: self._read(name))

    def _read(self, name: str) -> SourceText:
        path = self.root / name
        if not self._is_real(name.rpartition("/")[0]) or leads_out(self.root, path):
            raise UnreadableError(OUTSIDE)
        try:
            data = unsaved_text(path)
            size = path.stat().st_size if data is None else len(data)
            if data is None:
                data = _data(path) if size <= MAX_BYTES else b""
        except OSError as error:
            raise UnreadableError(_unreadable(error)) from None
        if size > MAX_BYTES:
            raise UnreadableError(_too_large(size))
        shown = self.shown(name)
        return SourceText(shown, decode(data, shown))

    def take(self, name: str) -> SourceText:
        """Return a file that another one names, read once, with its line ends made one.

        Raises as `read` does, and UnreadableError of a file that is not inside: links may not lead
        out, nor may a folder of its path be a link.
        """
        if name not in self._sources:
            if inside(name) != name:
                raise UnreadableError(OUTSIDE)
            found = self.read(name)
            text = found.text.replace("\r\n", "\n").replace("\r", "\n")
            self._sources[name] = found if text == found.text else SourceText(found.file, text)
        return self._sources[name]

    def has(self, name: str) -> bool:
        path = self.root / name
        return path.is_file() or unsaved_text(path) is not None

    def _is_real(self, folder: str) -> bool:
        """Tell whether no part of a folder's path, below this one, is a link."""
        if folder not in self._folders:
            self._folders[folder] = not folder or is_own_folder(self.root, folder)
        return self._folders[folder]


def _data(path: Path) -> bytes:
    session = reading_session()
    return read_regular(path) if session is None else session.data(path)


def refuse_link_out(root: Path, name: str) -> None:
    """Refuse a file of a project that is a link and leads out of it.  Raises ProjectErrors."""
    if leads_out(root, root / name):
        raise UnreadableError(OUTSIDE).at(SourceSpan(file=name, line=1))


def inside(path: str) -> str | None:
    """Return a relative path in its shortest form, None if it leads out or is none at all."""
    if not path or "\0" in path or PurePosixPath(path).is_absolute():
        return None
    shortest = normpath(path)
    return None if shortest.startswith("../") or shortest in ("..", ".") else shortest


def _unreadable(error: OSError) -> YamlRule:
    return YamlRule(
        "unreadable-file",
        f"the file cannot be read: {error.strerror or error}",
        "a definition that cannot be read would be missing",
        "check its access rights, or where the link leads",
    )


def _too_large(size: int) -> YamlRule:
    return YamlRule(
        "too-large",
        f"the file has {size} bytes, the most is {MAX_BYTES}",
        "a manifest is text that people read; this looks like data",
        "move the data elsewhere and refer to it by a source",
    )


OUTSIDE = YamlRule(
    "outside-project",
    "the file is not inside the project",
    "a project must work on every machine to which it is copied, and read nothing else of it",
    "copy the file into the project, and name it without '..' or links to folders",
)
