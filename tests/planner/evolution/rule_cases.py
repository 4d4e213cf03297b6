"""For each rule a change that meets it, and a near one that does not."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

from odfbuild.odf.events import (
    AddPushSource,
    AttachmentEmbedded,
    AttachmentsEmbedded,
    CompressionFormat,
    FetchStepUrl,
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    PrepStepDecompress,
    ReadStepCsv,
    SetAttachments,
    SetInfo,
    SetLicense,
    SetVocab,
    TemporalTable,
)
from odfbuild.planner.declared import Declared
from tests.planner.evolution.assessing import derivative, root, source

__all__ = ["CASES", "Case"]

Project: TypeAlias = Sequence[Declared]


@dataclass(frozen=True, slots=True)
class Case:
    """A project before, one after that meets the rule, one after that does not."""

    before: Project
    after: Project
    near: Project
    dataset: str = "src"
    column: str | None = None


_Three: TypeAlias = tuple[Project, Project, Project]
_Columns: TypeAlias = Sequence[str]
_T = TypeVar("_T")


def _three(make: Callable[[_T], Project], before: _T, after: _T, near: _T) -> _Three:
    return make(before), make(after), make(near)


def _read(before: _Columns, after: _Columns, near: _Columns) -> _Three:
    return _three(lambda each: (root("src", source(*each)),), before, after, near)


def _query(before: str, after: str, near: str) -> _Three:
    return _three(lambda each: (root("src"), derivative("out", each)), before, after, near)


def _upstream(query: str, before: _Columns, after: _Columns, near: _Columns) -> _Three:
    return _three(
        lambda each: (root("src", source(*each)), derivative("out", query)), before, after, near
    )


def _merged(before: MergeStrategy, after: MergeStrategy, near: MergeStrategy) -> _Three:
    return _three(lambda each: (root("src", source(merge=each)),), before, after, near)


def _licence(name: str) -> SetLicense:
    return SetLicense(short_name=name, name=name, website_url="https://example.org")


def _push(name: str) -> AddPushSource:
    read = ReadStepCsv(ddl_schema=("event_time TIMESTAMP", "id BIGINT"))
    return AddPushSource(source_name=name, read=read, merge=MergeStrategyAppend())


def _documents(text: str) -> SetAttachments:
    return SetAttachments(AttachmentsEmbedded((AttachmentEmbedded("README.md", text),)))


_TIME = "event_time TIMESTAMP"
_BASE = (_TIME, "id BIGINT", "fee DECIMAL(18,2)")
_PLAIN = "select event_time, id, fee from src"
_ALL = "select * from src"

_KEYED = MergeStrategyLedger(("id",))
_SNAPSHOT = MergeStrategySnapshot(("id",), ("fee",))


def _definitions() -> Mapping[str, Case]:
    url = replace(source(), fetch=FetchStepUrl(url="https://example.org/a.csv"))
    gzip = PrepStepDecompress(format=CompressionFormat.GZIP)
    step = "select event_time, id, fee, note from input"
    other = "select event_time, id, fee * 2 as fee, note from input"
    return {
        "ODF101": Case(
            (root("src"), root("out")),
            (root("src"), derivative("out", _ALL)),
            (root("src"), root("out")),
            "out",
        ),
        "ODF102": Case(
            (root("src", source(), SetVocab(event_time_column="day")),),
            (root("src", source(), SetVocab(event_time_column="date")),),
            (root("src", source(), SetVocab(event_time_column="day", offset_column="offset")),),
        ),
        "ODF103": Case(*_merged(MergeStrategyAppend(), _KEYED, MergeStrategyAppend())),
        "ODF104": Case(*_merged(_KEYED, MergeStrategyLedger(("id", "note")), _KEYED)),
        "ODF105": Case(
            *_merged(_SNAPSHOT, MergeStrategySnapshot(("id",), ("fee", "note")), _SNAPSHOT)
        ),
        "ODF106": Case(
            (root("src"),),
            (root("src", SetInfo(description="x")),),
            (root("src", source(path="other/*.csv")),),
        ),
        "ODF107": Case((root("src"),), (root("src", url),), (root("src", source(null_value="-")),)),
        "ODF108": Case(
            (root("src"),),
            (root("src", source(null_value="n/a")),),
            (root("src", source(path="other/*.csv")),),
        ),
        "ODF109": Case(
            (root("src"),),
            (root("src", source(prepare=(gzip,))),),
            (root("src", source(prepare=())),),
        ),
        "ODF110": Case(
            (root("src", source(preprocess=step)),),
            (root("src", source(preprocess=other)),),
            (root("src", source(preprocess=step.replace(" from", "\nfrom"))),),
        ),
        "ODF111": Case(
            (root("src", source(), _licence("A")),),
            (root("src", source(), _licence("B")),),
            (root("src", source(), _licence("A")),),
        ),
        "ODF112": Case(
            (root("src", source(), _licence("A")),),
            (root("src"),),
            (root("src", source(), _licence("B")),),
        ),
        "ODF113": Case(
            (root("src"),),
            (root("src", source(), SetInfo(description="x")),),
            (root("src", source(), SetInfo()),),
        ),
        "ODF114": Case(
            (root("src", source(), _documents("a")),),
            (root("src", source(), _documents("b")),),
            (root("src", source(), _documents("a")),),
        ),
        "ODF115": Case(
            (root("src"), root("b", _push("b"))), (root("b", _push("b")),), (root("src"),)
        ),
        "ODF116": Case(
            (root("src"),),
            (root("other"),),
            (root("other", source(path="other/*.csv")),),
        ),
    }


def _inputs() -> Mapping[str, Case]:
    a, b, both = root("a"), root("b", source(path="b/*.csv")), "select event_time, id from a"
    union = "select event_time, id from a union all select event_time, id from b"
    return {
        "ODF117": Case(
            (a, b, derivative("out", both, "a")),
            (a, b, derivative("out", union, "a", "b")),
            (a, b, derivative("out", both + " where id > 1", "a")),
            "out",
        ),
        "ODF118": Case(
            (a, b, derivative("out", union, "a", "b")),
            (a, b, derivative("out", both, "a")),
            (a, b, derivative("out", union, "b", "a")),
            "out",
        ),
        "ODF119": Case(
            (a, b, derivative("out", union, "a", "b")),
            (a, b, derivative("out", union, "b", "a")),
            (a, b, derivative("out", both, "b")),
            "out",
        ),
        "ODF120": Case(
            (a, derivative("out", both, "a")),
            (a, derivative("out", both.replace("from a", "from x"), "a x")),
            (a, derivative("out", both.replace("from a", "from x where id > 1"), "a x")),
            "out",
        ),
        "ODF121": Case(
            (root("src", _push("one")),),
            (root("src", _push("one"), _push("two")),),
            (root("src", _push("one"), SetInfo(description="x")),),
        ),
    }


def _schemas() -> Mapping[str, Case]:
    wide = (_TIME, "id BIGINT", "fee DECIMAL(20,2)")
    return {
        "ODF201": Case(*_read(_BASE, _BASE[:2], (*_BASE, "x INT")), column="fee"),
        "ODF202": Case(
            *_query(
                _PLAIN,
                "select event_time, id, fee as commission from src",
                "select event_time, id, note as commission from src",
            ),
            "out",
            "fee",
        ),
        "ODF203": Case(*_read(_BASE, (*_BASE[:2], "fee STRING"), wide), column="fee"),
        "ODF204": Case(*_read(_BASE, wide, (*_BASE[:2], "fee DECIMAL(18,3)")), column="fee"),
        "ODF205": Case(
            *_read(_BASE, (_TIME, "id BIGINT NOT NULL", _BASE[2]), (*_BASE, "x INT NOT NULL")),
            column="id",
        ),
        "ODF206": Case(
            *_read(
                (_TIME, "id BIGINT NOT NULL"), (_TIME, "id BIGINT"), ("id BIGINT NOT NULL", _TIME)
            ),
            column="id",
        ),
        "ODF207": Case(
            *_read(_BASE, (_TIME, _BASE[2], _BASE[1]), (_TIME, _BASE[1], "x INT", _BASE[2]))
        ),
        "ODF208": Case(*_read(_BASE, (*_BASE, "x INT"), (*_BASE, "x INT NOT NULL")), column="x"),
        "ODF209": Case(*_read(_BASE, (*_BASE, "x INT NOT NULL"), (*_BASE, "x INT")), column="x"),
        "ODF210": Case(
            *_read(
                ("event_time DATE", "id INT"), (_TIME, "id INT"), ("event_time DATE", "id BIGINT")
            ),
            column="event_time",
        ),
        "ODF211": Case(
            *_query(_PLAIN, "select id, fee from src", "select id, fee, event_time from src"),
            "out",
            "event_time",
        ),
        "ODF212": Case(
            (root("src"),),
            (root("src", replace(source(), read=ReadStepCsv(header=True, infer_schema=True))),),
            (root("src", source(null_value="n/a")),),
        ),
        "ODF213": Case(
            *_query(
                _PLAIN,
                "select event_time, id, some_function(fee) as fee from src",
                "select event_time, id, cast(some_function(fee) as decimal(18,2)) as fee from src",
            ),
            "out",
            "fee",
        ),
    }


def _queries() -> Mapping[str, Case]:
    src, plain = root("src"), derivative("out", _PLAIN)
    less = _BASE[:2]
    text = (_TIME, "id BIGINT", "fee STRING")
    tables = (TemporalTable("src", ("id",)),)
    return {
        "ODF301": Case(
            *_query(
                "select event_time, id * 2 as id from src",
                "select event_time, id * 3 as id from src",
                "select event_time, id * 2 as id, fee from src",
            ),
            "out",
        ),
        "ODF302": Case(
            *_query(
                "select event_time, id from src",
                _PLAIN,
                "select event_time, id + 1 as id, fee from src",
            ),
            "out",
        ),
        "ODF303": Case(
            (src, derivative("out", _PLAIN, engine="datafusion")),
            (src, plain),
            (src, derivative("out", _PLAIN + " where id > 1", engine="datafusion")),
            "out",
        ),
        "ODF304": Case(
            (src, derivative("out", _PLAIN, version="4.2.0+odfbuild.1")),
            (src, derivative("out", _PLAIN + " where id > 1")),
            (src, derivative("out", _PLAIN + " where id > 1", version="4.2.0+odfbuild.1.restate")),
            "out",
        ),
        "ODF305": Case(
            *_upstream("select event_time, id - fee as net from src", _BASE, less, text),
            "out",
            "fee",
        ),
        "ODF306": Case(*_upstream(_ALL, less, _BASE, less), "out", "fee"),
        "ODF307": Case(*_upstream(_ALL, _BASE, less, text), "out", "fee"),
        "ODF308": Case(*_upstream(_PLAIN, _BASE, text, (*_BASE, "x INT")), "out", "fee"),
        "ODF309": Case(
            *_upstream("select event_time, id from src where fee > '1'", _BASE, text, less),
            "out",
            "fee",
        ),
        "ODF310": Case(
            *_query(
                _PLAIN,
                "select event_time, id, max(fee) as fee from src group by event_time, id",
                _PLAIN + " where id > 1",
            ),
            "out",
        ),
        "ODF311": Case(
            *_query(_PLAIN, _PLAIN + " where id > 1", _PLAIN.replace("fee", "fee, note")), "out"
        ),
        "ODF312": Case(
            (src, derivative("out", "select event_time id fee from from src")),
            (src, plain),
            (src, derivative("out", "select event_time id fee from from src")),
            "out",
        ),
        "ODF313": Case(
            (src, plain),
            (src, derivative("out", _PLAIN, temporal_tables=tables)),
            (src, derivative("out", _PLAIN, temporal_tables=())),
            "out",
        ),
        "ODF314": Case(
            *_query(_PLAIN, "SELECT event_time, id, fee -- all\nFROM `src`;", _PLAIN + " limit 1"),
            "out",
        ),
    }


_MAKERS: Sequence[Callable[[], Mapping[str, Case]]] = (_definitions, _inputs, _schemas, _queries)
CASES = {code: case for make in _MAKERS for code, case in make().items()}
