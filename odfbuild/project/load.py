"""Load a project: its settings and all definitions, or everything that is wrong with them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from odfbuild.errors import Diagnostic, ProjectErrors, SourceSpan
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.dag import make_dag
from odfbuild.planner.declared import Declared
from odfbuild.project.config import Config, load_config
from odfbuild.project.fingerprint import project_files
from odfbuild.project.manifests import Manifests, read_manifests
from odfbuild.project.yaml import decode

__all__ = ["Project", "load_project"]

MAX_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project as read: its datasets in topological order, and what is worth a warning."""

    root: Path
    config: Config
    declared: tuple[Declared, ...]
    notes: tuple[Diagnostic, ...] = ()


def load_project(root: Path, *, known: Mapping[DatasetAlias, DatasetId] | None = None) -> Project:
    """Return a project; `known` are the datasets of the workspace, which inputs may refer to.

    Raises ProjectErrors with the problems of all files and of the graph, sorted by place.
    """
    config = load_config(root)
    reading = _Reading()
    for name in project_files(root, config.datasets):
        reading.file(root, name)
    declared = reading.ordered(known or {})
    if reading.found:
        raise ProjectErrors(sorted(reading.found, key=_by_place))
    return Project(
        root=root,
        config=config,
        declared=declared,
        notes=tuple(sorted(reading.notes, key=_by_place)),
    )


@dataclass(slots=True)
class _Reading:
    """What was read so far; `hidden` when some file may declare datasets that cannot be seen."""

    found: list[Diagnostic] = field(default_factory=list)
    declared: list[Declared] = field(default_factory=list)
    notes: list[Diagnostic] = field(default_factory=list)
    hidden: bool = False

    def file(self, root: Path, name: str) -> None:
        try:
            manifests = _read(root, name)
        except ProjectErrors as error:
            self.found += error.found
            self.hidden = True
            return
        self.declared += manifests.declared
        self.found += manifests.errors
        self.notes += manifests.notes
        self.hidden = self.hidden or manifests.hidden

    def ordered(self, known: Mapping[DatasetAlias, DatasetId]) -> tuple[Declared, ...]:
        """Return the datasets in order; an unknown input may be declared in what is hidden."""
        try:
            return make_dag(self.declared, known).order
        except ProjectErrors as error:
            self.found += [
                each for each in error.found if not (self.hidden and each.code == "unknown-input")
            ]
            return ()


def _read(root: Path, name: str) -> Manifests:
    if name.endswith(".j2"):
        raise ProjectErrors([_template(name)])
    path = root / name
    try:
        size = path.stat().st_size
        data = path.read_bytes() if size <= MAX_BYTES else b""
    except OSError as error:
        raise ProjectErrors([_unreadable(name, error)]) from None
    if size > MAX_BYTES:
        raise ProjectErrors([_too_large(name, size)])
    return read_manifests(decode(data, name), name)


def _template(name: str) -> Diagnostic:
    return Diagnostic(
        code="unsupported-template",
        what="templates are not supported in this version of odfbuild",
        why="the datasets that it makes would be missing without a word",
        fix="write the manifests out as .yaml, or move the file out of the folder",
        span=SourceSpan(file=name, line=1),
    )


def _unreadable(name: str, error: OSError) -> Diagnostic:
    return Diagnostic(
        code="unreadable-file",
        what=f"the file cannot be read: {error.strerror or error}",
        why="every definition counts: what cannot be read would be missing",
        fix="check its access rights, or where the link leads",
        span=SourceSpan(file=name, line=1),
    )


def _too_large(name: str, size: int) -> Diagnostic:
    return Diagnostic(
        code="too-large",
        what=f"the file has {size} bytes, the most is {MAX_BYTES}",
        why="a manifest is text that people read; this looks like data",
        fix="move the data elsewhere and refer to it by a source",
        span=SourceSpan(file=name, line=1),
    )


def _by_place(found: Diagnostic) -> tuple[str, int, int, str]:
    span = found.span
    return (
        ("", 0, 0, found.what) if span is None else (span.file, span.line, span.column, found.what)
    )
