"""Packages that a project takes templates, macros, rules and datasets from."""

import re
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from odfbuild.errors import SourceSpan
from odfbuild.project.config.settings import Section, SettingsReader
from odfbuild.project.yaml import Value
from odfbuild.texts.patterns import late_pattern
from odfbuild.values import dataclass

_KEYS = ("git", "rev", "path", "name")
_SCHEME = late_pattern(r"([A-Za-z][A-Za-z0-9+.-]*)(://|::)")
_SCP = late_pattern(r"([A-Za-z0-9._-]+@)?[A-Za-z0-9][A-Za-z0-9.-]*:[^/:\\][^\\]*")
_NAME = late_pattern(r"[A-Za-z0-9]+([._-][A-Za-z0-9]+)*")

# of HTTP even a name alone: hosts take tokens in its place
_PASSWORD = late_pattern(
    r"[A-Za-z][A-Za-z0-9+.-]*://[^/@\s]*:[^/@\s]*@|https?://[^/\s]*@", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageSource:
    """Where a package comes from: a git repository at a revision, or a folder.

    `path` is relative to the project, and may lead out of it, as may `git`; `name` is None if not
    given.
    """

    git: str | None = None
    rev: str | None = None
    path: str | None = None
    name: str | None = None
    span: SourceSpan

    @property
    def called(self) -> str:
        """The given name, else the last part of where it comes from."""
        if self.name is not None:
            return self.name
        last = re.split(r"[/:]", (self.git or self.path or "").rstrip("/"))[-1]
        return last.removesuffix(".git")

    def folder(self, root: Path) -> Path | None:
        """Return where on this machine it comes from; None for another machine."""
        if self.path is not None:
            return root / self.path
        git = self.git or ""
        if git.lower().startswith("file://"):
            return Path("/", unquote(git[7:].partition("/")[2]))
        return root / git if is_path(git) else None


def is_path(git: str) -> bool:
    """Tell whether git takes an address for a path, relative to the project."""
    return _SCHEME.match(git) is None and _SCP.fullmatch(git) is None


def read_packages(reading: SettingsReader, value: Value) -> tuple[PackageSource, ...]:
    """Return the packages that are right; no two may have one name."""
    known: dict[str, PackageSource] = {}
    for at, item in enumerate(reading.items(value, ("packages",))):
        entry = reading.section(item, ("packages", at), _KEYS)
        found = _package(entry)
        if found is None:
            continue
        if not _NAME.fullmatch(found.called):
            entry.wrong(
                "name" if found.name else "git" if found.git else "path",
                f"'{found.called}' is not a name for a package",
                "its files are referred to by that name",
                "add: name: NAME, of letters, digits, and single '.', '-' or '_' between them",
            )
        elif found.called.lower() in known:
            what = f"two packages are called '{found.called}'"
            fix = "give one another name: name: NAME"
            reading.refuse(entry.path, what, "their files are referred to by that name", fix)
        known.setdefault(found.called.lower(), found)
    return tuple(known.values())


def _package(entry: Section) -> PackageSource | None:
    before = len(entry.reading.found)
    _check_origin(entry)
    found = PackageSource(
        git=entry.text("git"),
        rev=entry.text("rev"),
        path=entry.text("path"),
        name=entry.text("name"),
        span=entry.reading.places.value(entry.path),
    )
    for key, text in (("git", found.git), ("rev", found.rev)):
        if text is not None and text.startswith("-"):
            why = "git would read it as an option"
            entry.wrong(key, f"'{text}' starts with a dash", why, "correct it")
    if found.git is not None and _PASSWORD.match(found.git):
        entry.reading.refuse(
            entry.at("git"),
            "the address holds a password, or something like one",
            "it would be in the repository and in the lock file",
            "remove it; git has its own store of credentials",
            code="secret",
            hidden=True,
        )
    if found.path is not None and (PurePosixPath(found.path).is_absolute() or "\0" in found.path):
        entry.wrong(
            "path",
            f"the folder '{found.path}' is not relative",
            "a project must work on every machine to which it is copied",
            "give a path relative to odfbuild.yaml",
        )
    return found if len(entry.reading.found) == before else None


def _check_origin(entry: Section) -> None:
    given = entry.entries
    if not given.keys() & {"git", "path"}:
        what = "a package has no origin"
        fix = "add: git: URL and rev: REVISION; or path: FOLDER"
        entry.reading.refuse(entry.path, what, "it has no default", fix)
    if "git" in given and "path" in given:
        why = "a package comes from one place"
        what = "'path' does not go with 'git'"
        entry.wrong("path", what, why, "keep one of the two", at_key=True)
    if "git" in given and "rev" not in given:
        why = "without one, the package could change under the project"
        fix = "add: rev: TAG or COMMIT"
        entry.wrong("git", "there is no revision", why, fix)
    if "rev" in given and "git" not in given:
        why = "a folder is used as it is"
        entry.wrong("rev", "'rev' goes with 'git' only", why, "remove it", at_key=True)
