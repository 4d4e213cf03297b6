"""Checks of a source: where it fetches from, how it reads and merges, where its event times are."""

import re
from collections.abc import Sequence

from odfbuild.odf import events
from odfbuild.odf.backtracking import CostlyPatternError, check_cost
from odfbuild.odf.events import (
    AddPushSource,
    DataField,
    DataSchema,
    DatasetVocabulary,
    DataType,
    EventTimeSource,
    EventTimeSourceFromMetadata,
    EventTimeSourceFromPath,
    FetchStep,
    FetchStepContainer,
    FetchStepFilesGlob,
    FetchStepUrl,
    MergeStrategy,
    PrepStep,
    PrepStepPipe,
    ReadStep,
    ReadStepCsv,
    SetPollingSource,
    SourceOrdering,
)
from odfbuild.odf.merge_strategies import (
    compared_columns,
    key_of,
    name_of,
    reads_operations,
    records_operations,
)
from odfbuild.odf.read_options import UnknownTimePartError, named_groups, strptime_form
from odfbuild.odf.schema.types import type_name, unhashable
from odfbuild.planner.select.url_schemes import URL_SCHEMES
from odfbuild.project.checks.containers import check_container
from odfbuild.project.checks.findings import Findings
from odfbuild.project.checks.read_steps import check_read
from odfbuild.project.yaml.places import KeyPath
from odfbuild.texts.suggest import Suggestions, did_you_mean


def check_order(fetch: FetchStepFilesGlob, path: KeyPath, findings: Findings) -> None:
    """Check that the order of files can be known."""
    by_time = fetch.order is SourceOrdering.BY_EVENT_TIME
    if by_time and not isinstance(fetch.event_time, EventTimeSourceFromPath):
        findings.refuse(
            "event-time-source",
            path,
            "files cannot be ordered by times that are not known",
            "the order has to be known before a file is read, so the names must hold the times",
            "say where with `eventTime: {kind: FromPath, pattern: ...}`, or order them ByName",
        )


def check_event_time(
    source: EventTimeSource | None,
    impossible: type[EventTimeSourceFromMetadata] | None,
    path: KeyPath,
    findings: Findings,
) -> None:
    """Check that a source has what its event time is said to come from."""
    if impossible is not None and isinstance(source, impossible):
        findings.refuse(
            "event-time-source",
            (*path, "eventTime", "kind"),
            "FromMetadata does not work with FilesGlob",
            "file names can hold times, and answers of servers have metadata, but not the reverse",
            "use FromPath or FromSystemTime",
        )
    elif isinstance(source, EventTimeSourceFromPath):
        _check_pattern(source.pattern, (*path, "eventTime", "pattern"), findings)
        form = source.timestamp_format
        _check_form(form, (*path, "eventTime", "timestampFormat"), findings)


def _check_pattern(pattern: str, path: KeyPath, findings: Findings) -> None:
    try:
        check_cost(named_groups(pattern))
        groups = re.compile(named_groups(pattern)).groups
        why = "the time is what its first group matches"
    except CostlyPatternError as error:
        findings.refuse(
            "event-time-pattern",
            path,
            "a search with this pattern may not end",
            str(error),
            r"write no repeat in a repeat and few `.*`: for example (\d+-\d+-\d+)\.csv",
        )
        return
    except (re.error, RecursionError, OverflowError) as error:
        groups = 0
        why = f"it is not a regular expression: {error}"
    if groups == 0:
        findings.refuse(
            "event-time-pattern",
            path,
            "no time can be found with this pattern",
            why,
            r"write for example (\d+-\d+-\d+)\.csv",
        )


def _check_form(form: str | None, path: KeyPath, findings: Findings) -> None:
    try:
        strptime_form(form or "%Y")
    except UnknownTimePartError as error:
        findings.refuse(
            "event-time-pattern",
            path,
            f"the format has the part '{error.part}', which is not known",
            "a format without % is read as Java's SimpleDateFormat, one with it as strftime's",
            "use letters such as yyyy-MM-dd HH:mm:ss, or strftime's %Y-%m-%d %H:%M:%S",
        )


_Steps = tuple[str | int, ...]

_INTEGERS = (
    *(events.DataTypeInt8, events.DataTypeInt16, events.DataTypeInt32, events.DataTypeInt64),
    *(events.DataTypeUInt8, events.DataTypeUInt16, events.DataTypeUInt32, events.DataTypeUInt64),
)
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_NOT_YET = "this version of odfbuild cannot run it, and data would be silently missing"


def check_fetch(fetch: FetchStep, path: _Steps, findings: Findings) -> None:
    """Check that a fetch step is one that can be run here."""
    if isinstance(fetch, FetchStepUrl):
        _check_url(fetch.url, (*path, "url"), findings)
        _check_headers(fetch, (*path, "headers"), findings)
        check_event_time(fetch.event_time, None, path, findings)
    elif isinstance(fetch, FetchStepFilesGlob):
        _check_glob(fetch.path, (*path, "path"), findings)
        check_event_time(fetch.event_time, EventTimeSourceFromMetadata, path, findings)
        check_order(fetch, (*path, "order"), findings)
    elif isinstance(fetch, FetchStepContainer):
        check_container(fetch, path, findings)
    else:
        name = type(fetch).__name__.removeprefix("FetchStep")
        findings.refuse(
            "unsupported-source",
            (*path, "kind"),
            f"fetch steps of kind {name} are not supported",
            _NOT_YET,
            "fetch a Url, a FilesGlob or a Container, in which a program can ask any source",
        )


def check_prepare(steps: Sequence[PrepStep], path: _Steps, findings: Findings) -> None:
    """Check that prepare steps are ones that can be run here."""
    for at, step in enumerate(steps):
        if isinstance(step, PrepStepPipe):
            _check_command(step.command, (*path, at, "command"), findings)


def _check_command(command: Sequence[str], path: _Steps, findings: Findings) -> None:
    if not command or not command[0].strip():
        findings.refuse(
            "pipe-command",
            path if not command else (*path, 0),
            "the command has no program",
            "it is a list: the program, then its arguments, each as an item",
            "write for example [jq, -c, '.[]']",
        )
    for at, item in enumerate(command):
        if "\0" in item:
            findings.refuse(
                "pipe-command",
                (*path, at),
                "the item holds a character of code 0",
                "no argument of a program may have one",
                "remove it",
            )


def check_reading(
    source: SetPollingSource | AddPushSource,
    vocab: DatasetVocabulary,
    path: _Steps,
    findings: Findings,
    time_at: _Steps | None = None,
) -> None:
    """Check how a source reads and merges; without a preprocess query, also which columns.

    `time_at` is where the definition names the event time column, if it does.
    """
    read = source.read
    _check_merge(source.merge, (*path, "merge"), findings)
    schema = check_read(read, (*path, "read"), findings)
    if schema is None or source.preprocess is not None:
        return
    columns = _MergeColumns(schema, findings.written_key((*path, "read"), "ddlSchema", "schema"))
    _check_storable(columns, read, findings)
    _check_system_columns(columns, source.merge, vocab, findings)
    _check_operation_column(columns, source.merge, vocab, (*path, "merge"), findings)
    _check_key_columns(columns, source.merge, (*path, "merge"), findings)
    _check_event_time_column(columns, vocab, findings, time_at)


class _MergeColumns:
    """The columns that reach the merge, and where their list is written."""

    def __init__(self, schema: DataSchema, path: _Steps) -> None:
        self.fields = {field.name: field for field in schema.fields}
        self.index = {field.name: at for at, field in enumerate(schema.fields)}
        self.path = path

    def place(self, name: str, findings: Findings) -> _Steps:
        """Return where a column is declared: an item of a DDL list, or of `fields`."""
        written = findings.at(self.path)
        if isinstance(written, list) and len(written) == len(self.fields):
            return (*self.path, self.index[name])
        return (*self.path, "fields", self.index[name], "name")


def _check_url(url: str, path: _Steps, findings: Findings) -> None:
    if url.lstrip().startswith("${{"):
        return
    found = _URL.match(url.strip())
    if found is not None and found[1].lower() in URL_SCHEMES:
        return
    what = (
        f"urls with the scheme '{found[1]}' are not supported"
        if found is not None
        else f"'{url}' is not a URL"
    )
    findings.refuse(
        "unsupported-source",
        path,
        what,
        f"this version of odfbuild fetches {', '.join(URL_SCHEMES)} only",
        "use the http(s) address of the same file, or download it and use FilesGlob"
        if found is not None
        else "write it with its scheme, such as https://; of files, use FilesGlob",
    )


def _check_headers(fetch: FetchStepUrl, path: _Steps, findings: Findings) -> None:
    scheme = fetch.url.strip().partition(":")[0].lower()
    known = URL_SCHEMES.get(scheme)
    if fetch.headers and known is not None and not known.takes_headers:
        findings.refuse(
            "request-headers",
            path,
            f"urls with the scheme '{scheme}' are requested without headers",
            "headers are a part of HTTP, and these would be silently ignored",
            "remove them"
            if known.module is None
            else "remove them; user and password go into the url, ${{ env.USER }}:...@",
        )


def _check_glob(pattern: str, path: _Steps, findings: Findings) -> None:
    if not pattern.strip():
        findings.refuse(
            "unsupported-source",
            path,
            "the path is empty",
            "it says which files to read",
            "write a pattern relative to the project, such as data/*.csv",
        )


def _check_merge(merge: MergeStrategy, path: _Steps, findings: Findings) -> None:
    if not hasattr(merge, "primary_key"):
        return
    if not merge.primary_key:
        findings.refuse(
            "primary-key",
            (*path, "primaryKey"),
            "the primary key has no columns",
            f"{name_of(type(merge))} identifies records by them",
            "name at least one column, or use Append",
        )
    for at, column in enumerate(merge.primary_key):
        if column in merge.primary_key[:at]:
            findings.refuse(
                "primary-key",
                (*path, "primaryKey", at),
                f"the column '{column}' is twice in the primary key",
                "repeating it has no effect",
                "remove one of the two",
            )


def _check_key_columns(
    columns: _MergeColumns, merge: MergeStrategy, path: _Steps, findings: Findings
) -> None:
    named = {"primaryKey": key_of(merge), "compareColumns": compared_columns(merge)}
    for key, names in named.items():
        for at, name in enumerate(names):
            if name not in columns.fields:
                findings.refuse(
                    "unknown-column",
                    (*path, key, at),
                    f"no column named '{name}' in the read schema",
                    "without a preprocess query, records are merged as they are read",
                    did_you_mean(name, columns.fields) or "name a column of the schema",
                )


def _check_storable(columns: _MergeColumns, read: ReadStep, findings: Findings) -> None:
    """Check that columns can be in a data slice: what is read is what is stored here."""
    for name, field in columns.fields.items():
        part = unhashable(field.type)
        if part is not None:
            findings.refuse(
                "unhashable-type",
                columns.place(name, findings),
                f"the column '{name}' cannot be stored: {type_name(part)} has no logical hash",
                "arrow0-sha3-256 does not support maps, durations or structs inside of lists",
                "convert the column in a `preprocess` query (to_json() makes a text of it), or "
                "leave it out there"
                if _can_be_read(part, read)
                else "declare the column as STRING, and convert it in a `preprocess` query",
            )


def _can_be_read(of: DataType, read: ReadStep) -> bool:
    """Tell whether a reader has a form for a type that cannot be stored."""
    return not isinstance(read, ReadStepCsv) and not isinstance(of, events.DataTypeDuration)


def _check_system_columns(
    columns: _MergeColumns, merge: MergeStrategy, vocab: DatasetVocabulary, findings: Findings
) -> None:
    reserved = [vocab.offset_column, vocab.system_time_column]
    if not reads_operations(merge):
        reserved.append(vocab.operation_type_column)
    for name in reserved:
        if name in columns.fields:
            findings.refuse(
                "system-column",
                columns.place(name, findings),
                f"the column '{name}' has the name of a system column",
                'every record gets that column (ODF 0.34.1, "Common Data Schema")',
                "rename it here or in a preprocess query, or rename the system column by SetVocab",
            )


def _check_operation_column(
    columns: _MergeColumns,
    merge: MergeStrategy,
    vocab: DatasetVocabulary,
    path: _Steps,
    findings: Findings,
) -> None:
    """Check the column from which a source of changes says what each row does."""
    name = vocab.operation_type_column
    field = columns.fields.get(name)
    if field is None and records_operations(merge):
        findings.refuse(
            "operation-column",
            (*path, "kind"),
            f"{name_of(type(merge))} without a column '{name}' in the read schema",
            "that column says what each row does: 0 append, 1 retract, 2 and 3 correct from, to",
            "read it, make it in a preprocess query, or use UpsertStream, which needs none",
        )
    elif field is not None and reads_operations(merge) and not _is_integer(field):
        findings.refuse(
            "operation-column",
            columns.place(name, findings),
            f"the operation column '{name}' is not an integer",
            "operations are 0 (append), 1 (retract), 2 and 3 (correct from, to)",
            "change its type, or convert it in a preprocess query",
        )


def _is_integer(field: DataField) -> bool:
    kind = field.type.inner if isinstance(field.type, events.DataTypeOption) else field.type
    return isinstance(kind, _INTEGERS)


def _check_event_time_column(
    columns: _MergeColumns, vocab: DatasetVocabulary, findings: Findings, time_at: _Steps | None
) -> None:
    name = vocab.event_time_column
    field = columns.fields.get(name)
    if field is None:
        _check_near_event_time(columns, name, findings, time_at)
        return
    if not _is_time(field):
        findings.refuse(
            "event-time-column",
            columns.place(name, findings),
            f"the event time column '{name}' is neither a DATE nor a TIMESTAMP",
            "watermarks and windows depend on event times",
            "change its type, or convert it in a preprocess query",
        )


def _is_time(field: DataField) -> bool:
    kind = field.type.inner if isinstance(field.type, events.DataTypeOption) else field.type
    return isinstance(kind, events.DataTypeDate | events.DataTypeTimestamp)


def _check_near_event_time(
    columns: _MergeColumns, name: str, findings: Findings, time_at: _Steps | None
) -> None:
    """Check a name that no column has: event times come from the source then."""
    times = [field.name for field in columns.fields.values() if _is_time(field)]
    guess = Suggestions(times).nearest(name)
    if guess is not None and time_at is not None:
        findings.refuse(
            "event-time-column",
            time_at,
            f"no column named '{name}' in the read schema",
            "event times would come from the source, and all records would have this name",
            f"did you mean '{guess}'?",
        )
    elif guess is not None:
        findings.warn(
            "event-time-column",
            columns.path,
            f"no column named '{name}', so event times come from the source",
            "the schema has a column of a similar name",
            f"if '{guess}' is meant, name it as `eventTimeColumn` of SetVocab",
        )
