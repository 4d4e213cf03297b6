"""Read the DatasetSnapshot manifests of one file (ODF 0.34.1, "Manifests")."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from odfbuild.errors import Diagnostic
from odfbuild.odf.events import DatasetSnapshot
from odfbuild.odf.manifest import ManifestErrors, Problem, from_manifest
from odfbuild.planner.declared import Declared, normalize
from odfbuild.project.checks import check_snapshot
from odfbuild.project.findings import Findings
from odfbuild.project.yaml import Document, read_documents

__all__ = ["Manifests", "read_manifests"]

# of these problems, the key of an entry is the place, not its value
_AT_KEYS = ("unknown-field", "missing-field", "given-twice")


@dataclass(slots=True)
class Manifests:
    """What one file declares and what is wrong in it; `hidden` when a document was unreadable.

    A definition that breaks a rule is declared all the same, so that others can refer to it.
    """

    declared: list[Declared] = field(default_factory=list)
    errors: list[Diagnostic] = field(default_factory=list)
    notes: list[Diagnostic] = field(default_factory=list)
    hidden: bool = False


def read_manifests(text: str, file: str) -> Manifests:
    """Return what the documents of a file declare; ProjectErrors if it is no YAML at all.

    Documents without content are passed over: a definition may be commented out.
    """
    manifests = Manifests()
    for document in read_documents(text, file):
        if document.value is not None:
            _read_document(document, file, manifests)
    return manifests


def _read_document(document: Document, file: str, manifests: Manifests) -> None:
    findings = Findings(document.value, document.places)
    snapshot = _snapshot(document, file, findings)
    if snapshot is None:
        manifests.hidden = True
    else:
        check_snapshot(snapshot, findings)
        manifests.declared.append(_declared(snapshot, document, file))
    manifests.errors += findings.errors
    manifests.notes += findings.notes


def _declared(snapshot: DatasetSnapshot, document: Document, file: str) -> Declared:
    return Declared(
        alias=snapshot.name,
        snapshot=normalize(snapshot),
        written=snapshot,
        file=file,
        document=document.index,
        places=document.places,
    )


def _snapshot(document: Document, file: str, findings: Findings) -> DatasetSnapshot | None:
    try:
        _, _, decoded = from_manifest(document.value)
    except ManifestErrors as errors:
        _refuse(errors.problems, document, file, findings)
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


def _refuse(problems: Sequence[Problem], document: Document, file: str, findings: Findings) -> None:
    """Add the problems of a manifest; where an older specification shows, `upgrade` is the fix."""
    from odfbuild.project.legacy import legacy_paths

    old = legacy_paths(document)
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
