"""ODF1xx: rules on definitions and their inputs, and which of them a change meets.  Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from odfbuild.odf.chain.state import ChainState, vocabulary
from odfbuild.odf.events import (
    AddPushSource,
    DisablePollingSource,
    DisablePushSource,
    MergeStrategy,
    ReadStep,
    SetAttachments,
    SetInfo,
    SetLicense,
    SetPollingSource,
    SetTransform,
    SetVocab,
    TransformInput,
)
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.merge_strategies import compared_columns, key_of, name_of
from odfbuild.odf.opaque import is_opaque
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.diff import EventChange
from odfbuild.planner.evolution.rules.renames import ProbableRename, find_renames
from odfbuild.planner.evolution.rules.rule import Rule, hit
from odfbuild.planner.evolution.rules.subject import Subject
from odfbuild.planner.plan.changes import Affected, Assessment, ChangeClass, Hit, Usage
from odfbuild.planner.plan.policy import Severity

KIND_CHANGED = Rule(
    code="ODF101",
    name="kind-changed",
    title="a root dataset became a derivative, or the reverse",
    change=ChangeClass.BREAKING,
    severity=Severity.ERROR,
    explanation="The kind is part of the first block of a chain and cannot change. Readers rely "
    "on it, too: a root is a source of facts, a derivative can be recomputed.",
    before="kind: Root",
    after="kind: Derivative",
    ways=("declare the new form under another name",),
)
VOCABULARY_CHANGED = Rule(
    code="ODF102",
    name="vocabulary-changed",
    title="the system columns have other names",
    change=ChangeClass.BREAKING,
    severity=Severity.ERROR,
    explanation="Queries name the event time and the operation by the columns of the vocabulary. "
    "It can change before the first data; later, only a new chain can have other "
    "names.",
    before="- kind: SetVocab\n  eventTimeColumn: date",
    after="- kind: SetVocab\n  eventTimeColumn: day",
    ways=("put the SetVocab event back", "declare the new form under another name"),
)
MERGE_STRATEGY_CHANGED = Rule(
    code="ODF103",
    name="merge-strategy-changed",
    title="new rows are merged with another strategy",
    change=ChangeClass.BREAKING,
    severity=Severity.ERROR,
    explanation="Append keeps every row, Ledger one of each key, Snapshot corrects what changed. "
    "Readers know the rows so far by one of these, and new rows follow another.",
    before="merge: {kind: Append}",
    after="merge: {kind: Ledger, primaryKey: [id]}",
    ways=("keep the strategy", "publish the new form as {dataset}.v2"),
)
PRIMARY_KEY_CHANGED = Rule(
    code="ODF104",
    name="primary-key-changed",
    title="rows are identified by other columns",
    change=ChangeClass.BREAKING,
    severity=Severity.ERROR,
    explanation="The key says which rows are versions of one thing. With another key, rows that "
    "were one become several, or the reverse, in a history written with the old key.",
    before="merge: {kind: Snapshot, primaryKey: [city]}",
    after="merge: {kind: Snapshot, primaryKey: [city, year]}",
    ways=("keep the key", "publish the new form as {dataset}.v2"),
)
COMPARE_COLUMNS_CHANGED = Rule(
    code="ODF105",
    name="compare-columns-changed",
    title="a snapshot compares other columns to find changes",
    change=ChangeClass.RESTATING,
    severity=Severity.WARN,
    explanation="Columns that are not compared change without a correction. The next snapshot "
    "writes corrections for differences that were ignored before, or ignores those "
    "that it corrected.",
    before="merge: {kind: Snapshot, primaryKey: [id], compareColumns: [price]}",
    after="merge: {kind: Snapshot, primaryKey: [id], compareColumns: [price, stock]}",
    ways=("inform the readers of {dataset}",),
)
SOURCE_DISABLED = Rule(
    code="ODF106",
    name="source-disabled",
    title="a source that fed the dataset is no longer declared",
    change=ChangeClass.BREAKING,
    severity=Severity.ERROR,
    explanation="No new rows come from it. Readers keep the present rows, and wait for rows that "
    "never come.",
    before="- kind: SetPollingSource\n  fetch: {kind: Url, url: https://example.org/a.csv}",
    after="(no SetPollingSource)",
    ways=("keep the source", "remove the dataset and what reads it"),
)
SOURCE_CHANGED = Rule(
    code="ODF107",
    name="source-changed",
    title="the rows are fetched from another place",
    change=ChangeClass.DATA_ONLY,
    severity=Severity.OFF,
    explanation="Another address, pattern or kind of source. Rows that were read stay; the "
    "recorded position in the old source does not apply to the new one, so rows may "
    "be read again.",
    before="fetch: {kind: Url, url: https://example.org/a.csv}",
    after="fetch: {kind: Url, url: https://example.org/b.csv}",
    ways=("inform the readers of {dataset}",),
)
READ_CHANGED = Rule(
    code="ODF108",
    name="read-changed",
    title="the same bytes are read as other values",
    change=ChangeClass.RESTATING,
    severity=Severity.WARN,
    explanation="Another format or other options, such as the separator, the value for null or "
    "the format of dates. New rows may hold other values than the same input gave so "
    "far.",
    before="read: {kind: Csv, header: true, nullValue: ''}",
    after="read: {kind: Csv, header: true, nullValue: 'n/a'}",
    ways=("inform the readers of {dataset}",),
)
PREPARATION_CHANGED = Rule(
    code="ODF109",
    name="preparation-changed",
    title="the bytes are prepared differently before they are read",
    change=ChangeClass.RESTATING,
    severity=Severity.WARN,
    explanation="Decompression and filters decide which rows are read.",
    before="prepare: [{kind: Decompress, format: Gzip}]",
    after="prepare: [{kind: Decompress, format: Zip, subPath: a.csv}]",
    ways=("inform the readers of {dataset}",),
)
PREPROCESS_CHANGED = Rule(
    code="ODF110",
    name="preprocess-changed",
    title="another query processes the rows before they are merged",
    change=ChangeClass.RESTATING,
    severity=Severity.WARN,
    explanation="Rows that were merged stay as they are; new rows are made by the new query. If "
    "the columns change, rules ODF2xx apply, too.",
    before="preprocess: {kind: Sql, engine: spark, query: select id, price from input}",
    after="preprocess: {kind: Sql, engine: spark, query: select id, price / 100 as price "
    "from input}",
    ways=("publish the new form as {dataset}.v2",),
)
LICENCE_CHANGED = Rule(
    code="ODF111",
    name="licence-changed",
    title="the data has another licence",
    change=ChangeClass.METADATA,
    severity=Severity.WARN,
    explanation="No value changes, but readers may have other rights to use them.",
    before="- kind: SetLicense\n  shortName: CC-BY",
    after="- kind: SetLicense\n  shortName: Proprietary",
    ways=("inform the readers of {dataset}",),
)
LICENCE_REMOVED = Rule(
    code="ODF112",
    name="licence-removed",
    title="the definition no longer names a licence",
    change=ChangeClass.METADATA,
    severity=Severity.WARN,
    explanation="A licence cannot be removed from a chain: the one in force stays. So this is "
    "reported only when two revisions are compared; a plan for a workspace has "
    "nothing to append.",
    before="- kind: SetLicense\n  shortName: CC-BY",
    after="(no SetLicense)",
    ways=("put the SetLicense event back",),
)
INFO_CHANGED = Rule(
    code="ODF113",
    name="info-changed",
    title="the description or the keywords changed",
    change=ChangeClass.METADATA,
    severity=Severity.OFF,
    explanation="Nothing changes that a query can read.",
    before="- kind: SetInfo\n  description: Rates",
    after="- kind: SetInfo\n  description: Exchange rates",
    ways=("nothing has to be done",),
)
ATTACHMENTS_CHANGED = Rule(
    code="ODF114",
    name="attachments-changed",
    title="the attached documents changed",
    change=ChangeClass.METADATA,
    severity=Severity.OFF,
    explanation="Nothing changes that a query can read.",
    before="- kind: SetAttachments\n  attachments: {kind: Embedded, items: [...]}",
    after="(no SetAttachments)",
    ways=("nothing has to be done",),
)
DATASET_RETIRED = Rule(
    code="ODF115",
    name="dataset-retired",
    title="a dataset is no longer declared",
    change=ChangeClass.RETIRE,
    severity=Severity.ERROR,
    explanation="The definition was removed between two revisions. In a workspace nothing is "
    "deleted, and the chain may also have been copied there: this is then only a "
    "note, and a warning while a declared dataset still reads it. `gates: {ODF115: "
    "error}` refuses that.",
    before="datasets/rates.yaml",
    after="(no such file)",
    ways=("declare it again", "remove what reads it, too"),
)
DATASET_RENAMED = Rule(
    code="ODF116",
    name="dataset-renamed",
    title="a dataset was removed and a similar one added under another name",
    change=ChangeClass.RETIRE,
    severity=Severity.ERROR,
    explanation="Without a `moved:` entry the new name starts a new chain, all data is computed "
    "again, and the history stays under the old name. With it, the chain continues.",
    before="name: org.example.rates",
    after="name: org.example.exchange-rates",
    ways=(
        "moved: [{{from: {dataset}, to: {other}}}] in odfbuild.yaml",
        "odfbuild mv {dataset} {other}",
    ),
)
INPUT_ADDED = Rule(
    code="ODF117",
    name="input-added",
    title="a derivative dataset reads one more dataset",
    change=ChangeClass.RESTATING,
    severity=Severity.WARN,
    explanation="New rows are made from more inputs than the rows so far. The watermark follows "
    "the slowest input, so the new one can hold it back.",
    before="inputs: [{datasetRef: trades}]",
    after="inputs: [{datasetRef: trades}, {datasetRef: rates}]",
    ways=("publish the new form as {dataset}.v2",),
)
INPUT_REMOVED = Rule(
    code="ODF118",
    name="input-removed",
    title="a derivative dataset no longer reads a dataset",
    change=ChangeClass.BREAKING,
    severity=Severity.ERROR,
    explanation="Rows made from it stay, and are no longer corrected when that dataset corrects "
    "its own; `on_query_change: restate` retracts them.",
    before="inputs: [{datasetRef: trades}, {datasetRef: rates}]",
    after="inputs: [{datasetRef: trades}]",
    ways=("keep the input {other}", "publish the new form as {dataset}.v2"),
)
INPUTS_REORDERED = Rule(
    code="ODF119",
    name="inputs-reordered",
    title="the inputs are in another order",
    change=ChangeClass.DATA_ONLY,
    severity=Severity.OFF,
    explanation="The order of inputs determines the order of the rows of a step, hence their "
    "offsets; their values stay the same.",
    before="inputs: [{datasetRef: trades}, {datasetRef: rates}]",
    after="inputs: [{datasetRef: rates}, {datasetRef: trades}]",
    ways=("nothing has to be done",),
)
INPUT_ALIAS_CHANGED = Rule(
    code="ODF120",
    name="input-alias-changed",
    title="the query uses another name for an input",
    change=ChangeClass.METADATA,
    severity=Severity.OFF,
    explanation="The name and its uses in the query changed together, so the result is the same.",
    before="inputs: [{datasetRef: trades}]\nquery: select id from trades",
    after="inputs: [{datasetRef: trades, alias: t}]\nquery: select id from t",
    ways=("nothing has to be done",),
)
SOURCE_ADDED = Rule(
    code="ODF121",
    name="source-added",
    title="the dataset gets one more source",
    change=ChangeClass.DATA_ONLY,
    severity=Severity.OFF,
    explanation="Rows may now come from it, too.",
    before="(no AddPushSource)",
    after="- kind: AddPushSource\n  sourceName: manual",
    ways=("nothing has to be done",),
)
RULES = (
    KIND_CHANGED,
    VOCABULARY_CHANGED,
    MERGE_STRATEGY_CHANGED,
    PRIMARY_KEY_CHANGED,
    COMPARE_COLUMNS_CHANGED,
    SOURCE_DISABLED,
    SOURCE_CHANGED,
    READ_CHANGED,
    PREPARATION_CHANGED,
    PREPROCESS_CHANGED,
    LICENCE_CHANGED,
    LICENCE_REMOVED,
    INFO_CHANGED,
    ATTACHMENTS_CHANGED,
    DATASET_RETIRED,
    DATASET_RENAMED,
    INPUT_ADDED,
    INPUT_REMOVED,
    INPUTS_REORDERED,
    INPUT_ALIAS_CHANGED,
    SOURCE_ADDED,
)


def retired_hits(
    declared: Sequence[Declared], current: Mapping[DatasetAlias, ChainState], *, against: bool
) -> dict[DatasetAlias, Assessment]:
    """Return the assessments of datasets that are no longer declared.

    Between revisions a definition was removed.  In a workspace a chain may just as well have been
    copied there: that is worth a word only if a declared dataset reads it, or if a new one looks
    like it.
    """
    names = {each.alias for each in declared}
    gone = sorted(alias for alias in current if alias not in names)
    if not gone:
        return {}
    renamed = {each.old: each for each in find_renames(declared, current)}
    by_alias = {each.alias: each for each in declared}
    readers = _readers(declared, {current[alias].dataset: alias for alias in gone}, set(gone))
    return {
        alias: _assess_retired(alias, renamed.get(alias), readers.get(alias, []), by_alias, against)
        for alias in gone
    }


def _assess_retired(
    alias: DatasetAlias,
    renamed: ProbableRename | None,
    readers: Sequence[DatasetAlias],
    declared: Mapping[DatasetAlias, Declared],
    against: bool,
) -> Assessment:
    severity = None if against else Severity.WARN
    if renamed is not None:
        message = f"{renamed.new} looks like {alias} under another name"
        span = declared[renamed.new].span()
        found = hit(
            DATASET_RENAMED, alias, message, other=renamed.new, span=span, severity=severity
        )
    else:
        read = f", and {_readers_text(readers)} it" if readers else ""
        message = f"it is no longer declared{read}"
        if not readers and not against:
            severity = Severity.OFF
        found = hit(DATASET_RETIRED, alias, message, severity=severity)
    return Assessment(
        change=ChangeClass.RETIRE,
        hits=(found,),
        affected=tuple(Affected(each, (), (Usage.VALUE, Usage.SHAPE), True) for each in readers),
    )


def _readers_text(readers: Sequence[DatasetAlias]) -> str:
    more = f" and {len(readers) - 1} more read" if len(readers) > 1 else " reads"
    return f"{readers[0]}{more}"


def _readers(
    declared: Sequence[Declared],
    by_id: Mapping[DatasetId, DatasetAlias],
    gone: set[DatasetAlias],
) -> dict[DatasetAlias, list[DatasetAlias]]:
    found: dict[DatasetAlias, list[DatasetAlias]] = {}
    for each in declared:
        for event in each.snapshot.metadata:
            if isinstance(event, SetTransform):
                for source in event.inputs:
                    ref = source.dataset_ref
                    alias = by_id.get(ref) if isinstance(ref, DatasetId) else ref
                    if alias is not None and alias in gone:
                        found.setdefault(alias, []).append(each.alias)
    return found


_TAKEN_BACK = "Rows made from it are retracted by the next step, by on_query_change: restate."


def definition_hits(subject: Subject, state: ChainState) -> Iterator[Hit]:
    """Yield what the events to append say of a dataset that exists already."""
    yield from _kind(subject, state)
    yield from _vocab(subject, state)
    for change in subject.changes:
        yield from _of_event(subject, state, change)
    yield from _licence_removed(subject, state)


def _kind(subject: Subject, state: ChainState) -> Iterator[Hit]:
    kind = subject.declared.snapshot.kind
    if kind is not state.kind:
        message = f"was a {state.kind.value}, is declared as a {kind.value}"
        yield hit(KIND_CHANGED, subject.alias, message, span=subject.span("kind"))


def _vocab(subject: Subject, state: ChainState) -> Iterator[Hit]:
    """Yield the first name that becomes another one, once a chain has columns."""
    found = [
        (event, index)
        for index, event in enumerate(subject.declared.snapshot.metadata)
        if isinstance(event, SetVocab)
    ]
    undone = any(
        isinstance(each.event, SetVocab) and each.index is None for each in subject.changes
    )
    if not found and not undone and not subject.against:
        return
    if state.schema is None and not subject.against:  # nothing was ever read by these names
        return
    event, path = (found[0][0], ("metadata", found[0][1])) if found else (SetVocab(), ())
    now, was = vocabulary(event), state.vocab
    for name in now.__slots__:
        if getattr(now, name) != getattr(was, name):
            message = f"the column {getattr(was, name)!r} is to be called {getattr(now, name)!r}"
            yield hit(VOCABULARY_CHANGED, subject.alias, message, span=subject.span(*path))
            return


def _of_event(subject: Subject, state: ChainState, change: EventChange) -> Iterator[Hit]:
    alias, at = subject.alias, () if change.index is None else ("metadata", change.index)
    span = subject.span(*at)
    match change.event:
        case SetInfo():
            yield hit(INFO_CHANGED, alias, "its description or keywords change", span=span)
        case SetAttachments():
            yield hit(ATTACHMENTS_CHANGED, alias, "its attachments change", span=span)
        case SetLicense() as new:
            was = "none" if state.license is None else state.license.short_name
            yield hit(LICENCE_CHANGED, alias, f"the licence: {was} -> {new.short_name}", span=span)
        case DisablePollingSource():
            yield hit(SOURCE_DISABLED, alias, "it is no longer polled", span=span)
        case DisablePushSource(source_name=name):
            yield hit(SOURCE_DISABLED, alias, f"the push source {name!r} ends", span=span)
        case SetPollingSource() as source:
            yield from _source(subject, state.polling, source, change.index)
        case AddPushSource() as source:
            yield from _source(subject, state.push.get(source.source_name), source, change.index)
        case SetTransform() if state.transform is None:
            yield hit(SOURCE_ADDED, alias, "it gets a transform", span=span)
        case _:
            pass


def _source(
    subject: Subject,
    old: SetPollingSource | AddPushSource | None,
    new: SetPollingSource | AddPushSource,
    index: int | None,
) -> Iterator[Hit]:
    at = ("metadata", index or 0)
    if old is None:
        yield hit(SOURCE_ADDED, subject.alias, "it gets one more source", span=subject.span(*at))
        return
    if isinstance(new, SetPollingSource) and isinstance(old, SetPollingSource):
        yield from _fetch_hits(subject, old, new, at)
    if _without_schema(old.read) != _without_schema(new.read):
        message = _read_change(old.read, new.read)
        yield hit(READ_CHANGED, subject.alias, message, span=subject.span(*at, "read"))
    if (old.preprocess is None) != (new.preprocess is None):
        gains = "is" if old.preprocess is None else "is no longer"
        message = f"a preprocess query {gains} between reading and merging"
        place = at if new.preprocess is None else (*at, "preprocess")
        yield hit(PREPROCESS_CHANGED, subject.alias, message, span=subject.span(*place))
    if subject.has_columns:
        yield from _merge(subject, old.merge, new.merge, at)


def _fetch_hits(
    subject: Subject, old: SetPollingSource, new: SetPollingSource, at: tuple[str | int, ...]
) -> Iterator[Hit]:
    if old.fetch != new.fetch:
        kinds = [type(e.fetch).__name__.removeprefix("FetchStep") for e in (old, new)]
        message = "it is fetched from elsewhere"
        if kinds[0] != kinds[1]:
            message = f"it is fetched differently: {kinds[0]} -> {kinds[1]}"
        yield hit(SOURCE_CHANGED, subject.alias, message, span=subject.span(*at, "fetch"))
    if (old.prepare or ()) != (new.prepare or ()):
        place = at if new.prepare is None else (*at, "prepare")
        message = "fetched files are prepared differently"
        yield hit(PREPARATION_CHANGED, subject.alias, message, span=subject.span(*place))


def _without_schema(read: ReadStep) -> object:
    """Return a read step without its schema, on which there are rules of their own."""
    return read if is_opaque(read) else replace(read, ddl_schema=None, schema=None)


def _read_change(old: ReadStep, new: ReadStep) -> str:
    names = [type(each).__name__.removeprefix("ReadStep") for each in (old, new)]
    if names[0] != names[1]:
        return f"it is read as {names[1]}, no longer as {names[0]}"
    changed = [
        name
        for name in getattr(new, "__slots__", ())
        if name not in ("ddl_schema", "schema") and getattr(old, name) != getattr(new, name)
    ]
    return f"options of the read step change: {', '.join(map(_key, changed))}"


def _key(name: str) -> str:
    """Return a field's name as manifests have it: null_value is nullValue."""
    first, *rest = name.split("_")
    return first + "".join(each.title() for each in rest)


def _merge(
    subject: Subject, old: MergeStrategy, new: MergeStrategy, at: tuple[str | int, ...]
) -> Iterator[Hit]:
    alias, span = subject.alias, subject.span(*at, "merge")
    if type(old) is not type(new):
        names = [name_of(type(each)) for each in (old, new)]
        yield hit(
            MERGE_STRATEGY_CHANGED,
            alias,
            f"the merge strategy: {names[0]} -> {names[1]}",
            span=span,
        )
        return
    keys = [key_of(each) for each in (old, new)]
    if keys[0] != keys[1]:
        was, now = (", ".join(each) or "none" for each in keys)
        yield hit(PRIMARY_KEY_CHANGED, alias, f"the primary key: {was} -> {now}", span=span)
    compared = [compared_columns(each) for each in (old, new)]
    if compared[0] != compared[1]:
        was, now = (", ".join(each) or "all" for each in compared)
        yield hit(
            COMPARE_COLUMNS_CHANGED, alias, f"the columns compared: {was} -> {now}", span=span
        )


def _licence_removed(subject: Subject, state: ChainState) -> Iterator[Hit]:
    declared = any(isinstance(e, SetLicense) for e in subject.declared.snapshot.metadata)
    if subject.against and state.license is not None and not declared:
        message = f"the licence {state.license.short_name} is no longer declared"
        yield hit(LICENCE_REMOVED, subject.alias, message, span=subject.span())


def input_hits(
    subject: Subject, state: ChainState, names: Mapping[DatasetId, DatasetAlias]
) -> Iterator[Hit]:
    """Yield what a changed transform says of its inputs; `names` are those of datasets by id."""
    found = subject.find(SetTransform)
    if found is None or state.transform is None:
        return
    new, index = found
    at = ("metadata", index, "inputs")
    was = {each.dataset_ref: each for each in state.transform.inputs}
    now = {each.dataset_ref: each for each in new.inputs}
    for number, ref in enumerate(now):
        if ref not in was:
            span = subject.span(*at, number, "datasetRef")
            yield hit(
                INPUT_ADDED, subject.alias, f"it also reads {_alias_of(ref, names)}", span=span
            )
    for ref in was:
        if ref not in now:
            name = _alias_of(ref, names)
            span = subject.declared.key_span(at)
            message = f"it no longer reads {name}"
            why = _TAKEN_BACK if subject.restates else None
            yield hit(INPUT_REMOVED, subject.alias, message, why=why, other=name, span=span)
    kept = [[ref for ref in one if ref in other] for one, other in ((was, now), (now, was))]
    if kept[0] != kept[1]:
        span = subject.declared.key_span(at)
        yield hit(INPUTS_REORDERED, subject.alias, "its inputs are reordered", span=span)
    yield from _aliases(subject, was, new, at)


def _aliases(
    subject: Subject,
    was: Mapping[DatasetId | DatasetAlias, TransformInput],
    new: SetTransform,
    at: tuple[str | int, ...],
) -> Iterator[Hit]:
    if not subject.rewrite.form:
        return
    for number, each in enumerate(new.inputs):
        old = was.get(each.dataset_ref)
        if old is not None and old.alias != each.alias:
            message = f"the query calls {old.alias} now {each.alias}"
            yield hit(INPUT_ALIAS_CHANGED, subject.alias, message, span=subject.span(*at, number))


def _alias_of(
    ref: DatasetId | DatasetAlias, names: Mapping[DatasetId, DatasetAlias]
) -> DatasetId | DatasetAlias:
    return names.get(ref, ref) if isinstance(ref, DatasetId) else ref
