"""Inputs of a definition that are datasets of repositories: found, and replaced by ids."""

from collections.abc import Callable, Collection, Mapping

from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetUrl
from odfbuild.planner.plan.remote_inputs import (
    RemoteInput,
    RemoteRef,
    local_alias,
    query_name,
    reference_key,
    remote_ref,
    repository_of,
    unresolved_id,
)
from odfbuild.project.checks.findings import Findings
from odfbuild.project.yaml import Value
from odfbuild.texts.redaction import secret_parts
from odfbuild.texts.suggest import did_you_mean
from odfbuild.values import dataclass

_PATH = ("content", "metadata")
_TRANSFORM = "settransform"


@dataclass(frozen=True, slots=True)
class References:
    """What references to datasets of repositories mean.

    `repositories` are the known ones; `resolved` gives the ids that are known of references, by
    `reference_key`, and is asked only where there is a reference.  `here` are the datasets of the
    workspace: an id that is none of them, and of no other definition, is one of a repository.
    `unsure` says that there may be other repositories, in settings that cannot be read.
    """

    repositories: Collection[str] = ()
    resolved: Callable[[], Mapping[str, DatasetId]] = dict
    here: Callable[[], Collection[DatasetId]] = tuple
    unsure: bool = False

    def find(self, text: str) -> RemoteRef | None:
        """Return the reference that a text is; None if it is one to a dataset here."""
        ref = remote_ref(text, {each.lower() for each in self.repositories})
        if not isinstance(ref, DatasetId):
            return ref
        if reference_key(ref) in self.resolved():
            return ref
        return ref if self.repositories and ref not in self.here() else None


NO_REFERENCES = References()


def take_references(
    value: Value, references: References, findings: Findings
) -> tuple[RemoteInput, ...]:
    """Put ids in the place of references to datasets of repositories; return these.

    An input without an alias gets one, since a query cannot name it by an id.
    """
    found: list[RemoteInput] = []
    content = value.get("content") if isinstance(value, dict) else None
    events = content.get("metadata") if isinstance(content, dict) else None
    for at, event in enumerate(events if isinstance(events, list) else ()):
        inputs = event.get("inputs") if isinstance(event, dict) else None
        if not isinstance(event, dict) or not isinstance(inputs, list):
            continue
        if str(event.get("kind")).lower() != _TRANSFORM:
            continue
        for number, given in enumerate(inputs):
            path = (*_PATH, at, "inputs", number, "datasetRef")
            taken = _remote_input(given, path, references, findings)
            if taken is None:
                continue
            assert isinstance(given, dict)  # noqa: S101 - else nothing was taken
            alias = given.get("alias", query_name(taken.ref))
            inputs[number] = {**given, "datasetRef": str(taken.id), "alias": alias}
            found.append(taken)
    return tuple(found)


def _remote_input(
    given: Value, path: tuple[str | int, ...], references: References, findings: Findings
) -> RemoteInput | None:
    text = given.get("datasetRef") if isinstance(given, dict) else None
    if not isinstance(text, str) or ("/" not in text and ":" not in text):
        return None
    ref = references.find(text)
    if ref is None:
        return None
    _check(ref, path, references, findings)
    known = ref if isinstance(ref, DatasetId) else references.resolved().get(reference_key(ref))
    return RemoteInput(
        ref=ref,
        alias=local_alias(ref),
        id=unresolved_id(ref) if known is None else known,
        is_resolved=known is not None,
        path=path[1:],
    )


def _check(
    ref: RemoteRef, path: tuple[str | int, ...], references: References, findings: Findings
) -> None:
    repository = repository_of(ref)
    known = {each.lower() for each in references.repositories}
    if repository is not None and repository.lower() not in known and not references.unsure:
        guess = did_you_mean(repository, references.repositories)
        declare = f"say where it is: repositories: {{{repository}: URL}} in odfbuild.yaml"
        findings.refuse(
            "unknown-repository",
            path,
            f"there is no repository named '{repository}'",
            f"{ref} is a dataset of a repository: the first part of its name is the repository",
            f"{guess}, or {declare}" if guess else declare,
        )
    if isinstance(ref, DatasetUrl) and any(secret_parts(ref.url)):
        findings.refuse(
            "literal-secret",
            path,
            "the URL of an input holds credentials",
            "definitions are shared, and so is what is in them",
            "remove them here; docs/sharing.md says how to give them",
        )
