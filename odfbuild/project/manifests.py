"""Read the DatasetSnapshot manifests of one file (ODF 0.34.1, "Manifests")."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from odfbuild.errors import Diagnostic, Level, SourceSpan
from odfbuild.odf.events import DatasetSnapshot
from odfbuild.odf.manifest import ManifestErrors, Problem, from_manifest
from odfbuild.odf.refs import DatasetAlias, InvalidNameError
from odfbuild.planner.declared import Declared, normalize
from odfbuild.project.checks import check_snapshot
from odfbuild.project.findings import Findings
from odfbuild.project.places import Path as Steps
from odfbuild.project.places import Source
from odfbuild.project.rendered import RenderedSource
from odfbuild.project.yaml import Document, Include, read_source

__all__ = ["Manifests", "read_definitions", "read_manifests"]

# of these problems, the key of an entry is the place, not its value
_AT_KEYS = ("unknown-field", "missing-field", "given-twice")


@dataclass(slots=True)
class Manifests:
    """What one file declares and what is wrong in it; `hidden` when a document was unreadable.

    A definition that breaks a rule is declared all the same, so that others can refer to it.
    `wrong` has those of the errors that are of a dataset whose name is known.
    """

    declared: list[Declared] = field(default_factory=list)
    errors: list[Diagnostic] = field(default_factory=list)
    wrong: list[tuple[DatasetAlias, Diagnostic]] = field(default_factory=list)
    notes: list[Diagnostic] = field(default_factory=list)
    hidden: bool = False


def read_manifests(text: str, file: str) -> Manifests:
    """Return what the documents of a file declare; ProjectErrors if it is no YAML at all."""
    return read_definitions(Source(file, text))


def read_definitions(
    source: Source,
    include: Include | None = None,
    *,
    name: str | None = None,
    package: str | None = None,
) -> Manifests:
    """Return what the documents of a text declare; ProjectErrors if it is no YAML at all.

    Documents without content are passed over, with a note of a file that has no other: a definition
    may be commented out.  With `name`
    there is one document, and its dataset has that name, whether it says so or not.
    """
    manifests = Manifests()
    reading = _Reading(source, package, manifests)
    documents = read_source(source, include)
    for document in documents:
        if document.value is not None:
            reading.document(document, name)
    if all(each.value is None for each in documents) and not isinstance(source, RenderedSource):
        manifests.notes.append(_empty(source))
    return manifests


def _empty(source: Source) -> Diagnostic:
    only = "holds only comments" if source.text.strip() else "is empty"
    return Diagnostic(
        code="empty-file",
        what=f"{source.file} {only}, so it declares no dataset",
        why="a file of definitions that was not saved, or cut off, looks the same",
        fix="write the definition, or delete the file",
        span=SourceSpan(file=source.file, line=1),
        level=Level.NOTE,
    )


@dataclass(frozen=True, slots=True)
class _Reading:
    """Reads the documents of one text, of a package if it is named."""

    source: Source
    package: str | None
    manifests: Manifests

    def document(self, document: Document, name: str | None) -> None:
        findings = Findings(document.value, document.places)
        again = name is not None and _is_second(name, self.manifests, findings)
        if name is not None:
            _put_name(document, name, findings)
        snapshot = None if again else _snapshot(document, self.source, findings)
        if snapshot is None:
            self.manifests.hidden = True
        else:
            check_snapshot(snapshot, findings)
            self.manifests.declared.append(self._declared(snapshot, document))
        alias = _written_name(document) if snapshot is None else snapshot.name
        if alias is not None:
            self.manifests.wrong += [(alias, each) for each in findings.errors]
        self.manifests.errors += findings.errors
        self.manifests.notes += findings.notes

    def _declared(self, snapshot: DatasetSnapshot, document: Document) -> Declared:
        source = self.source
        return Declared(
            alias=snapshot.name,
            snapshot=normalize(snapshot),
            written=snapshot,
            file=source.file,
            document=document.index,
            places=document.places,
            instance=source.instance if isinstance(source, RenderedSource) else None,
            package=self.package,
        )


def _written_name(document: Document) -> DatasetAlias | None:
    """Return the name in a definition that cannot be read, if that can."""
    content = document.value.get("content") if isinstance(document.value, dict) else None
    name = content.get("name") if isinstance(content, dict) else None
    try:
        return DatasetAlias.parse(name) if isinstance(name, str) else None
    except InvalidNameError:
        return None


def _is_second(name: str, manifests: Manifests, findings: Findings) -> bool:
    """Refuse a second definition under the one name that a generator has."""
    if not manifests.declared:
        return False
    findings.refuse(
        "generated-name",
        (),
        f"a second definition, and the generator has one name: '{name}'",
        "one name is one dataset",
        "remove `name` from the generator and write the names here, or write two templates",
    )
    return True


def _put_name(document: Document, name: str, findings: Findings) -> None:
    """Give a definition the name that its generator has for it."""
    content = document.value.get("content") if isinstance(document.value, dict) else None
    if not isinstance(content, dict):
        return
    written = content.get("name", name)
    content["name"] = name
    if written != name:
        findings.refuse(
            "generated-name",
            ("content", "name"),
            f"the dataset is called '{written}' here, and '{name}' by its generator",
            "one of the two names would be lost without a word",
            "remove it here, or from the generator",
        )


def _snapshot(document: Document, source: Source, findings: Findings) -> DatasetSnapshot | None:
    try:
        _, _, decoded = from_manifest(document.value)
    except ManifestErrors as errors:
        _refuse(errors.problems, _legacy(document, source), source.file, findings)
        return None
    if isinstance(decoded, DatasetSnapshot):
        return decoded
    findings.refuse(
        "unknown-kind",
        ("kind",),
        "the manifest does not declare a dataset",
        "the files of a project do, blocks and events are written by odfbuild apply",
        "write kind: DatasetSnapshot, or move the file out of the folder",
    )
    return None


def _legacy(document: Document, source: Source) -> Collection[Steps]:
    """Return what `upgrade` would rewrite: nothing in what a template makes."""
    from odfbuild.project.legacy import legacy_paths

    return () if isinstance(source, RenderedSource) else legacy_paths(document)


def _refuse(
    problems: Sequence[Problem], old: Collection[Steps], file: str, findings: Findings
) -> None:
    """Add the problems of a manifest; where an older specification shows, `upgrade` is the fix."""
    way_out = f"odfbuild upgrade {file}"
    if () in old:
        findings.refuse(
            "legacy-manifest",
            (),
            "the manifest has the form of an older specification",
            "datasets are defined by `name`, `kind` and `metadata` (ODF 0.34.1, DatasetSnapshot)",
            way_out,
        )
        return
    for each in problems:
        above = each.code == "missing-field" and any(path[:-1] == each.path for path in old)
        fix = way_out if each.path in old or above else each.fix
        key = each.code in _AT_KEYS
        findings.refuse(each.code, each.path, each.what, each.why, fix, key=key)
