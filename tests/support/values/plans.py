"""Whole plans: one with everything in it, made by hand, and any other as hypothesis draws it."""

from dataclasses import replace
from typing import Any, get_args

from hypothesis import strategies as st

from odfbuild.errors import Diagnostic, Level, SourceSpan
from odfbuild.odf.events import (
    DataSchema,
    DatasetKind,
    DisablePollingSource,
    MetadataEvent,
    SetInfo,
    SetTransform,
    TransformInput,
)
from odfbuild.odf.identity import DatasetId, sha3_256
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.schema.ddl import parse_ddl
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.plan import (
    Append,
    BaseHead,
    Foreseen,
    GitState,
    Ingest,
    Move,
    Plan,
    Planned,
    Step,
    Transform,
)
from odfbuild.planner.plan.changes import (
    Affected,
    Assessment,
    ChangeClass,
    ColumnChange,
    Hit,
    Judgement,
    SchemaChange,
    Usage,
    Verdict,
)
from odfbuild.planner.plan.policy import BadRows, IngestOptions, RepeatedKeys, Severity
from odfbuild.planner.plan.reasons import (
    DefinitionChanged,
    FilesPassedOver,
    FirstRun,
    InputAdvanced,
    InputMayAdvance,
    NotYetCreated,
    Reason,
    Renamed,
    SourceHasNews,
    SourceToAsk,
)
from odfbuild.sql.query_class import QueryClass
from tests.planner.builders import dataset_id, polling, sql
from tests.support.values.strategies import (
    aliases,
    dataset_ids,
    events,
    multihashes,
    records,
    timestamps,
)

__all__ = ["EVERYTHING", "alias", "empty_plan", "hit_of", "plans", "with_hits"]


def alias(name: str) -> DatasetAlias:
    """Return the name of a dataset of the plan with everything."""
    return DatasetAlias.parse(f"org.example.{name}")


def _at(file: str, line: int, column: int = 9, **more: Any) -> SourceSpan:
    return SourceSpan(file=f"datasets/{file}", line=line, column=column, **more)


def _based(name: str) -> BaseHead:
    return BaseHead(dataset_id(name), sha3_256(f"head of {name}".encode()))


def _schema(*columns: str) -> DataSchema:
    return parse_ddl(columns)


_EUR = Planned(
    kind=DatasetKind.ROOT,
    place=_at("rates.yaml.j2", 3, instance="cur=eur"),
    based_on=None,
    assessment=Assessment(change=ChangeClass.ADDITIVE),
    definition=str(sha3_256(b"eur")),
)
_TRADES = Planned(
    kind=DatasetKind.ROOT,
    place=_at("trades.yaml", 4),
    based_on=_based("trades"),
    foreseen=Foreseen(slices=10, rows=1_200_000, bytes=45_000_000),
    assessment=Assessment(
        change=ChangeClass.BREAKING,
        schema=SchemaChange(
            _schema("id BIGINT NOT NULL", "fee DECIMAL(18,2)", "at STRUCT<city STRING>"),
            _schema("id BIGINT NOT NULL", "at STRUCT<city STRING, zip STRING>", "note STRING"),
            (
                ColumnChange(path="fee", kind="removed", before="DECIMAL(18,2)", after=None),
                ColumnChange(path="at.zip", kind="added", before=None, after="STRING"),
                ColumnChange(path="note", kind="added", before=None, after="STRING"),
            ),
        ),
        hits=(
            Hit(
                code="ODF201",
                name="column-removed",
                dataset=alias("trades"),
                column="fee",
                change=ChangeClass.BREAKING,
                severity=Severity.ERROR,
                judged=Judgement.REFUSED,
                message="the column fee is gone",
                why="rows written so far have it, and whoever reads it finds nothing",
                ways=("keep the column", "publish org.example.trades.v2"),
                span=_at("trades.yaml", 12, 11, length=3, excerpt="        - fee DECIMAL(18,2)"),
            ),
        ),
        affected=(
            Affected(alias("value"), ("net",), (Usage.VALUE,)),
            Affected(alias("report"), (), (Usage.SHAPE,), unknown=True),
        ),
    ),
)
_VALUE = Planned(
    kind=DatasetKind.DERIVATIVE,
    place=_at("portfolio.yaml", 5),
    based_on=_based("value"),
    assessment=Assessment(
        change=ChangeClass.RESTATING,
        schema=SchemaChange(
            _schema("net DECIMAL(18,2)", "n INT"),
            None,
            (
                ColumnChange(path="n", kind="widened", before="INT", after="BIGINT"),
                ColumnChange(path="net", kind="retyped", before="DECIMAL(18,2)", after="STRING"),
                ColumnChange(path="old", kind="renamed", before="old", after="new"),
                ColumnChange(path="n", kind="required", before="INT", after="INT NOT NULL"),
                ColumnChange(path="n", kind="reordered", before=None, after=None),
            ),
            unknown="the query calls a function that is not known | `x`",
        ),
        hits=(
            Hit(
                code="ODF301",
                name="query-changed",
                dataset=alias("value"),
                column=None,
                change=ChangeClass.RESTATING,
                severity=Severity.WARN,
                judged=Judgement.WARNED,
                message="another query under the same schema",
                why="rows before and after it mean different things",
                ways=("set on_query_change: restate",),
                span=_at(
                    "portfolio.yaml",
                    41,
                    20,
                    length=3,
                    excerpt="      select amount - fee as net from trades",
                ),
            ),
            Hit(
                code="ODF205",
                name="column-made-required",
                dataset=alias("value"),
                column="n",
                change=ChangeClass.BREAKING,
                severity=Severity.ERROR,
                judged=Judgement.ACCEPTED,
                message="n may not be null any more",
                why="rows written so far may hold null",
                ways=(),
                span=None,
                accepted="odfbuild.yaml:9:5: agreed with its readers",
            ),
            Hit(
                code="ODF207",
                name="columns-reordered",
                dataset=alias("value"),
                column="n",
                change=ChangeClass.BREAKING,
                severity=Severity.ERROR,
                judged=Judgement.EXPIRED,
                message="the columns are in another order",
                why="who reads by position reads another column",
                ways=("put it back",),
                span=_at("portfolio.yaml", 44),
                accepted="odfbuild.yaml:12:5: until 2026-01-31",
            ),
        ),
        affected=(Affected(alias("report"), ("pnl", "total"), (Usage.VALUE, Usage.SHAPE)),),
        query=QueryClass("keyed", "group by day"),
    ),
)
_REPORT = Planned(
    kind=DatasetKind.DERIVATIVE,
    place=_at("report.yaml", 5),
    based_on=_based("report"),
    foreseen=Foreseen(slices=1, rows=1, bytes=900),
)
_NEW = Planned(
    kind=DatasetKind.DERIVATIVE,
    place=_at("new.yaml", 5),
    based_on=_based("old"),
    moved_from=alias("old"),
    assessment=Assessment(change=ChangeClass.METADATA),
)
_GONE = Planned(
    kind=DatasetKind.ROOT,
    place=None,
    based_on=_based("gone"),
    assessment=Assessment(change=ChangeClass.RETIRE),
)
_ASKED = Planned(kind=DatasetKind.ROOT, place=_at("asked.yaml", 5), based_on=_based("asked"))
_QUIET = Planned(kind=DatasetKind.ROOT, place=_at("quiet.yaml", 5), based_on=_based("quiet"))


def _step(verb: str, name: str, work: Any, *after: str, why: tuple[Reason, ...]) -> Step:
    return Step(
        id=f"{verb}:{alias(name)}",
        target=alias(name),
        work=work,
        after=tuple(f"{each.split(':')[0]}:{alias(each.split(':')[1])}" for each in after),
        reasons=why,
    )


_STEPS = (
    _step(
        "append",
        "eur",
        Append(DatasetKind.ROOT, (polling(), SetInfo(description="Rates <b>of</b> the euro"))),
        why=(NotYetCreated("datasets/rates.yaml.j2:3:9"),),
    ),
    _step(
        "ingest",
        "eur",
        Ingest(),
        "append:eur",
        why=(FirstRun(), SourceHasNews(("1.csv", "2.csv", "3.csv", "4.csv"))),
    ),
    _step(
        "append",
        "trades",
        Append(None, (polling("trades/*.csv"),)),
        why=(DefinitionChanged("SetPollingSource", "datasets/trades.yaml:6:5"),),
    ),
    _step("ingest", "trades", Ingest(), "append:trades", why=(SourceHasNews(("9.csv",)),)),
    _step(
        "append",
        "value",
        Append(
            None,
            (
                SetTransform(
                    inputs=(TransformInput(dataset_id("trades"), "trades"),),
                    transform=sql("select amount - fee as net from trades"),
                ),
            ),
        ),
        why=(DefinitionChanged("SetTransform", "datasets/portfolio.yaml:9:5"),),
    ),
    _step(
        "transform",
        "value",
        Transform((alias("trades"), dataset_id("eur"))),
        "ingest:trades",
        "append:value",
        why=(
            InputAdvanced(dataset_id("trades"), "trades", 9, 48_211, None),
            InputMayAdvance(alias("trades")),
            InputMayAdvance(alias("eur")),
        ),
    ),
    _step(
        "transform",
        "report",
        Transform((alias("value"),)),
        "transform:value",
        why=(InputMayAdvance(alias("value")),),
    ),
    _step("move", "new", Move(alias("old")), why=(Renamed(alias("old"), "odfbuild.yaml:4:3"),)),
    _step(
        "append",
        "gone",
        Append(None, (DisablePollingSource(),)),
        why=(DefinitionChanged("DisablePollingSource", "datasets/gone.yaml:1:1"),),
    ),
    _step("ingest", "asked", Ingest(), why=(SourceToAsk("https://example.org/x.csv"),)),
)

EVERYTHING = Plan(
    odf_version="0.34.1",
    project_hash=str(sha3_256(b"project")),
    datasets={
        alias("eur"): _EUR,
        alias("trades"): _TRADES,
        alias("value"): _VALUE,
        alias("report"): _REPORT,
        alias("new"): _NEW,
        alias("asked"): _ASKED,
        alias("quiet"): _QUIET,
        alias("gone"): _GONE,
    },
    steps=_STEPS,
    unchanged=(alias("quiet"),),
    notes=(
        Diagnostic(
            code="unmanaged",
            what="org.example.left is in the workspace and no longer declared",
            why="removing a definition deletes nothing: history is permanent",
            fix="declare it again to continue it",
            level=Level.NOTE,
        ),
        Diagnostic(
            code="no-transform",
            what="the derivative dataset 'org.example.report' has no transform",
            why="it would never have data",
            fix="add a SetTransform",
            span=_at("report.yaml", 7, 5, length=8, excerpt="    metadata: []"),
            level=Level.WARNING,
        ),
    ),
    verdict=Verdict("default", 2, 1, 1),
    project="markets",
    target="prod",
    workspace="./.odfbuild",
    git=GitState("1f3c2ab95e3c6a2f5f9b3c1f0d9b8a7c6d5e4f3a", True),
)
"""Every kind of work, reason, class, judgement and column change, in eight datasets."""


def empty_plan() -> Plan:
    """Return the plan of a project that has nothing to do."""
    return replace(
        EVERYTHING,
        datasets={alias("quiet"): _QUIET},
        steps=(),
        notes=(),
        verdict=Verdict("default", 0, 0, 0),
        git=None,
    )


def hit_of(message: str, **more: Any) -> Hit:
    """Return a refused hit of the dataset `quiet` that says this."""
    known = _TRADES.assessment
    assert known is not None
    return replace(known.hits[0], dataset=alias("quiet"), message=message, **more)


def with_hits(*hits: Hit) -> Plan:
    """Return a plan whose only dataset meets some rules."""
    found = Assessment(change=ChangeClass.BREAKING, hits=hits)
    planned = replace(_QUIET, assessment=found)
    refused = sum(hit.judged in (Judgement.REFUSED, Judgement.EXPIRED) for hit in hits)
    verdict = Verdict("default", refused, 0, 0)
    return replace(empty_plan(), datasets={alias("quiet"): planned}, unchanged=(), verdict=verdict)


# --- any plan --------------------------------------------------------------------------------

_texts = st.text(max_size=12)
_tuples_of_texts = st.lists(_texts, max_size=2).map(tuple)
_numbers = st.integers(0, 2**40)
_spans = st.builds(
    SourceSpan,
    file=_texts,
    line=_numbers,
    column=_numbers,
    length=_numbers,
    excerpt=st.none() | _texts,
    instance=st.none() | _texts,
)
st.register_type_strategy(DatasetAlias, aliases)
st.register_type_strategy(DatasetId, dataset_ids)
st.register_type_strategy(Timestamp, timestamps)
_file_names = st.lists(_texts, min_size=1, max_size=3).map(tuple)
_of_files: dict[Any, st.SearchStrategy[Reason]] = {  # their fields are not any texts
    SourceHasNews: st.builds(SourceHasNews, _file_names),
    FilesPassedOver: st.builds(FilesPassedOver, st.sampled_from(["changed", "late"]), _file_names),
}
_reasons = st.one_of([_of_files.get(each, st.from_type(each)) for each in get_args(Reason)])
_columns = st.builds(
    ColumnChange, path=_texts, kind=_texts, before=st.none() | _texts, after=st.none() | _texts
)
_schemas = st.none() | records(DataSchema)
_changes = st.builds(
    SchemaChange, _schemas, _schemas, st.lists(_columns, max_size=2).map(tuple), st.none() | _texts
)
_hits = st.builds(
    Hit,
    code=_texts,
    name=_texts,
    dataset=aliases,
    column=st.none() | _texts,
    change=st.sampled_from(ChangeClass),
    severity=st.sampled_from(Severity),
    judged=st.sampled_from(Judgement),
    message=_texts,
    why=_texts,
    ways=_tuples_of_texts,
    span=st.none() | _spans,
    accepted=st.none() | _texts,
)
_affected = st.builds(
    Affected,
    aliases,
    _tuples_of_texts,
    st.lists(st.sampled_from(Usage), max_size=2).map(tuple),
    st.booleans(),
)
_assessments = st.builds(
    Assessment,
    change=st.sampled_from(ChangeClass),
    schema=st.none() | _changes,
    hits=st.lists(_hits, max_size=2).map(tuple),
    affected=st.lists(_affected, max_size=2).map(tuple),
    query=st.none() | st.builds(QueryClass, _texts, st.none() | _texts),
)
_planned = st.builds(
    Planned,
    kind=st.sampled_from(DatasetKind),
    place=st.none() | _spans,
    based_on=st.none() | st.builds(BaseHead, dataset_ids, multihashes),
    assessment=st.none() | _assessments,
    moved_from=st.none() | aliases,
    foreseen=st.none() | st.builds(Foreseen, _numbers, _numbers, _numbers),
    definition=st.none() | _texts,
)
_events: st.SearchStrategy[MetadataEvent] = events
_options = st.builds(
    IngestOptions,
    watermark_lag=st.integers(0, 1 << 40),
    watermark_age=st.none() | st.integers(60_000, 1 << 40),
    repeated_keys=st.sampled_from(RepeatedKeys),
    bad_rows=st.sampled_from(BadRows),
    max_bad_rows=st.none() | st.integers(0, 1 << 40),
    max_bad_percent=st.none() | st.integers(0, 100),
)
_works: dict[str, st.SearchStrategy[Any]] = {
    "append": st.builds(
        Append,
        st.none() | st.sampled_from(DatasetKind),
        st.lists(_events, max_size=2).map(tuple),
    ),
    "move": st.builds(Move, aliases),
    "ingest": st.builds(Ingest, _options, st.none() | timestamps),
    "transform": st.builds(Transform, st.lists(aliases | dataset_ids, max_size=2).map(tuple)),
}
_notes = st.builds(
    Diagnostic,
    code=_texts,
    what=_texts,
    why=_texts,
    fix=_texts,
    span=st.none() | _spans,
    level=st.sampled_from(Level),
)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Draw a plan: steps wait for earlier ones, each dataset has one step of a kind at most."""
    names = draw(st.lists(aliases, max_size=3, unique=True))
    steps: list[Step] = []
    for name in names:
        for verb in draw(st.lists(st.sampled_from(sorted(_works)), max_size=2, unique=True)):
            before = [step.id for step in steps]
            after = draw(st.lists(st.sampled_from(before), max_size=2)) if before else []
            steps.append(
                Step(
                    id=f"{verb}:{name}",
                    target=name,
                    work=draw(_works[verb]),
                    after=tuple(after),
                    reasons=tuple(draw(st.lists(_reasons, max_size=2))),
                )
            )
    idle = [name for name in names if all(step.target != name for step in steps)]
    return Plan(
        odf_version=draw(_texts),
        project_hash=draw(_texts),
        datasets={name: draw(_planned) for name in names},
        steps=tuple(steps),
        unchanged=tuple(name for name in idle if draw(st.booleans())),
        notes=tuple(draw(st.lists(_notes, max_size=2))),
        verdict=draw(
            st.builds(Verdict, st.sampled_from(["strict", "default", "off"]), *[_numbers] * 3)
        ),
        project=draw(_texts),
        target=draw(_texts),
        workspace=draw(_texts),
        against=draw(st.none() | _texts),
        git=draw(st.none() | st.builds(GitState, _texts, st.booleans())),
        selected=draw(st.none() | st.lists(aliases, max_size=2).map(tuple)),
    )
