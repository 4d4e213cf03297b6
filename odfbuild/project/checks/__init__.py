"""Checks of one dataset definition beyond the types of its fields."""

from collections import Counter
from collections.abc import Sequence

from odfbuild.odf.chain.state import vocabulary
from odfbuild.odf.events import (
    AddData,
    AddPushSource,
    DatasetKind,
    DatasetSnapshot,
    DatasetVocabulary,
    DisablePollingSource,
    DisablePushSource,
    ExecuteTransform,
    MetadataEvent,
    Seed,
    SetAttachments,
    SetDataSchema,
    SetInfo,
    SetLicense,
    SetPollingSource,
    SetTransform,
    SetVocab,
    TransformInput,
    TransformSql,
)
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import LONGEST_ALIAS, DatasetAlias
from odfbuild.planner.declared import in_effect
from odfbuild.project.checks.findings import Findings
from odfbuild.project.checks.sources import check_fetch, check_prepare, check_reading
from odfbuild.texts.redaction import excerpt
from odfbuild.texts.suggest import Suggestions

_Steps = tuple[str | int, ...]

_RUNTIME = (Seed, AddData, ExecuteTransform)
_OF_ROOTS = (SetPollingSource, AddPushSource, DisablePollingSource, DisablePushSource)
_SINGULAR = (
    SetPollingSource,
    SetTransform,
    SetVocab,
    SetAttachments,
    SetInfo,
    SetLicense,
    SetDataSchema,
)


def check_snapshot(snapshot: DatasetSnapshot, findings: Findings) -> None:
    """Add to the findings what is wrong with a definition as it was written."""
    _check_name(snapshot.name, findings)
    metadata = in_effect(snapshot.metadata)
    _check_singular(metadata, findings)
    _check_sources(metadata, findings)
    _check_disabled(snapshot.metadata, findings)
    named = next((each for each in metadata if isinstance(each, SetVocab)), SetVocab())
    vocab, time_at = vocabulary(named), _written_time(metadata, findings)
    for at, event in enumerate(metadata):
        path: _Steps = ("content", "metadata", at)
        _check_allowed(snapshot.kind, event, path, findings)
        if isinstance(event, SetPollingSource):
            check_fetch(event.fetch, (*path, "fetch"), findings)
            check_prepare(event.prepare or (), (*path, "prepare"), findings)
        if isinstance(event, SetPollingSource | AddPushSource):
            check_reading(event, vocab, path, findings, time_at)
            if event.preprocess is not None:
                _check_transform(event.preprocess, (*path, "preprocess"), findings)
        if isinstance(event, SetTransform):
            _check_inputs(event.inputs, (*path, "inputs"), findings)
            _check_transform(event.transform, (*path, "transform"), findings)
        if isinstance(event, SetVocab):
            _check_vocabulary(vocab, path, findings)
    if snapshot.kind is DatasetKind.DERIVATIVE:
        _check_has_transform(snapshot, findings)


def _check_name(alias: DatasetAlias, findings: Findings) -> None:
    if len(alias.file_name) > LONGEST_ALIAS:
        findings.refuse(
            "unusable-name",
            ("content", "name"),
            f"the name {excerpt(str(alias), 80)!r} is too long",
            f"it is used as a file name, so it may have {LONGEST_ALIAS} characters, of which a / "
            "counts as three",
            "give the dataset a shorter name",
        )


def _check_singular(metadata: Sequence[MetadataEvent], findings: Findings) -> None:
    seen: set[str] = set()
    for at, event in enumerate(metadata):
        kind = type(event).__name__
        if isinstance(event, _SINGULAR) and kind in seen:
            findings.refuse(
                "duplicate-event",
                ("content", "metadata", at, "kind"),
                f"a second {kind}",
                "the later one would silently replace the earlier one",
                "merge the two into one",
            )
        seen.add(kind)


def _check_sources(metadata: Sequence[MetadataEvent], findings: Findings) -> None:
    polled = any(isinstance(event, SetPollingSource) for event in metadata)
    names: set[str] = set()
    for at, event in enumerate(metadata):
        if not isinstance(event, AddPushSource):
            continue
        path: _Steps = ("content", "metadata", at)
        if polled:
            findings.refuse(
                "two-sources",
                (*path, "kind"),
                "a push source and a polling source",
                "a dataset is either polled or pushed to",
                "keep one of them, or make two datasets and a derivative of both",
            )
        if event.source_name in names:
            findings.refuse(
                "duplicate-event",
                (*path, "sourceName"),
                f"a second push source named '{event.source_name}'",
                "data is pushed to a source by its name",
                "rename one of the two",
            )
        names.add(event.source_name)


def _check_disabled(metadata: Sequence[MetadataEvent], findings: Findings) -> None:
    """Warn of the end of a push source that is declared under a name much like it."""
    names = [event.source_name for event in metadata if isinstance(event, AddPushSource)]
    for at, event in enumerate(metadata):
        if not isinstance(event, DisablePushSource) or event.source_name in names:
            continue
        meant = Suggestions(names).nearest(event.source_name)
        if meant is not None:
            findings.warn(
                "no-such-source",
                ("content", "metadata", at, "sourceName"),
                f"no push source named '{event.source_name}' is declared here",
                "sources that are not declared are disabled anyway, and one declared under "
                "another name stays",
                f"did you mean '{meant}'?",
            )


def _check_allowed(
    kind: DatasetKind, event: MetadataEvent, path: _Steps, findings: Findings
) -> None:
    name = type(event).__name__
    if isinstance(event, _RUNTIME):
        findings.refuse(
            "event-not-allowed",
            (*path, "kind"),
            f"{name} cannot be declared",
            "it records what happened when a dataset was created, filled or transformed",
            "remove it: odfbuild apply writes it",
        )
    elif kind is DatasetKind.ROOT and isinstance(event, SetTransform):
        findings.refuse(
            "wrong-kind",
            (*path, "kind"),
            "a root dataset cannot have a transform",
            'roots get data from outside, derivatives from other datasets (ODF 0.34.1, "Dataset")',
            "make it `kind: Derivative`, or give it a source",
        )
    elif kind is DatasetKind.DERIVATIVE and isinstance(event, _OF_ROOTS):
        findings.refuse(
            "wrong-kind",
            (*path, "kind"),
            "a derivative dataset cannot have a source",
            'roots get data from outside, derivatives from other datasets (ODF 0.34.1, "Dataset")',
            "make it `kind: Root`, or move the source to a root dataset that this one reads",
        )


def _check_has_transform(snapshot: DatasetSnapshot, findings: Findings) -> None:
    if not any(isinstance(event, SetTransform) for event in snapshot.metadata):
        findings.warn(
            "no-transform",
            ("content", "kind"),
            f"the derivative dataset '{snapshot.name}' has no transform",
            "it would never have data",
            "add a SetTransform, or make it `kind: Root`",
        )


def _check_inputs(inputs: Sequence[TransformInput], path: _Steps, findings: Findings) -> None:
    if not inputs:
        findings.refuse(
            "no-inputs",
            path,
            "the transform has no inputs",
            "a derivative dataset is made of others",
            "name at least one input",
        )
    seen: dict[str, DatasetAlias | DatasetId] = {}
    for at, each in enumerate(inputs):
        name = each.alias if each.alias is not None else str(each.dataset_ref)
        if seen.setdefault(name, each.dataset_ref) != each.dataset_ref:
            findings.refuse(
                "duplicate-alias",
                findings.written_key((*path, at), "alias", "datasetRef"),
                f"a second input called '{name}'",
                "the query could not distinguish the two",
                "give one of them another alias",
            )


def _check_transform(transform: TransformSql, path: _Steps, findings: Findings) -> None:
    if transform.query is not None and transform.queries is not None:
        findings.refuse(
            "invalid-queries",
            (*path, "query"),
            "both `query` and `queries` are given",
            "`query` is the short form of one step in `queries`",
            "keep one of them",
            key=True,
        )
    elif transform.query is not None:
        _check_text(transform.query, (*path, "query"), findings)
    elif not transform.queries:
        at = path if transform.queries is None else (*path, "queries")
        findings.refuse(
            "invalid-queries",
            at,
            "the transform has no query",
            "a transform has at least one",
            "add `query`",
        )
    else:
        _check_steps(transform, (*path, "queries"), findings)


def _check_steps(transform: TransformSql, path: _Steps, findings: Findings) -> None:
    steps = transform.queries or ()
    last = len(steps) - 1
    aliases = Counter(step.alias for step in steps)
    for at, step in enumerate(steps):
        _check_text(step.query, (*path, at, "query"), findings)
        if at == last and step.alias is not None:
            findings.refuse(
                "invalid-queries",
                (*path, at, "alias"),
                "the last query has an alias",
                'its result is the dataset (ODF 0.34.1, "Transform::Sql")',
                "remove the alias",
            )
        if at < last and step.alias is None:
            findings.refuse(
                "invalid-queries",
                (*path, at),
                "a query before the last has no alias",
                "later queries could not refer to it",
                "give it an alias, or remove it",
            )
        if step.alias is not None and aliases[step.alias] > 1:
            findings.refuse(
                "invalid-queries",
                (*path, at, "alias"),
                f"the alias '{step.alias}' is used by {aliases[step.alias]} queries",
                "later queries could not distinguish them",
                "give each query its own alias",
            )


def _check_text(query: str, path: _Steps, findings: Findings) -> None:
    if not query.strip():
        findings.refuse(
            "invalid-queries",
            path,
            "the query is empty",
            "it selects the rows of the dataset",
            "write the query, or remove the transform",
        )


def _written_time(metadata: Sequence[MetadataEvent], findings: Findings) -> _Steps | None:
    """Return where a definition names the event time column, if it does."""
    for at, event in enumerate(metadata):
        if isinstance(event, SetVocab):
            place = findings.written_key(("content", "metadata", at), "eventTimeColumn", "kind")
            return place if place[-1] == "eventTimeColumn" else None
    return None


def _check_vocabulary(vocab: DatasetVocabulary, path: _Steps, findings: Findings) -> None:
    columns = {
        "offsetColumn": vocab.offset_column,
        "operationTypeColumn": vocab.operation_type_column,
        "systemTimeColumn": vocab.system_time_column,
        "eventTimeColumn": vocab.event_time_column,
    }
    uses = Counter(columns.values())
    for key, name in columns.items():
        if uses[name] > 1 and findings.written_key(path, key, "kind")[-1] == key:
            findings.refuse(
                "duplicate-column",
                (*path, key),
                f"'{name}' is the name of {uses[name]} system columns",
                "every record has all four of them",
                "give each its own name",
            )
