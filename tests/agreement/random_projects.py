"""Random projects as somebody writes them, faults included, and what is done to them next.

A definition is a plain mapping, which is YAML when it is written as JSON.
"""

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from odfbuild.odf.events import MergeStrategy, MergeStrategyAppend
from odfbuild.odf.merge_strategies import TRAITS, Operations, name_of

__all__ = ["Drawn"]

_DAY = datetime(2024, 1, 28, tzinfo=UTC)
_FORMATS = ("Csv", "NdJson", "Json", "Parquet")
_SUFFIX = {"Csv": "csv", "NdJson": "ndjson", "Json": "json", "Parquet": "parquet"}
_MERGES = list(TRAITS)
_TYPES = ("STRING", "BIGINT", "DOUBLE", "INT", "BOOLEAN", "DATE", "TIMESTAMP", "DECIMAL(12, 2)")
_ARROW = {
    "STRING": pa.string(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "INT": pa.int32(),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("ms", "UTC"),
    "DECIMAL(12, 2)": pa.float64(),
}


@dataclass(slots=True)
class _Root:
    """A root: its columns with types, which of them is the event time, how it is read."""

    columns: dict[str, str]
    time: str
    format: str
    merge: type[MergeStrategy]
    fault: str = ""
    files: int = 0
    note: int = 0
    sure: bool = True  # that the event time is not null, as is declared
    is_retyped: bool = False  # files of before do not fit its types


def _is_changelog(root: _Root) -> bool:
    return TRAITS[root.merge].operations is Operations.REQUIRED


@dataclass(slots=True)
class _Derived:
    """A derivative: the datasets that it reads, its query, and the columns that this gives."""

    inputs: list[str]
    query: str
    columns: dict[str, str]
    time: str
    extra: Mapping[str, Any] = field(default_factory=dict)
    note: int = 0
    is_astray: bool = False  # reads a dataset that is not there


class Drawn:
    """A project that grows; `files` are what is there now, None for what went."""

    def __init__(self, seed: int) -> None:
        self._draw = Random(f"agreement {seed}")
        self.datasets: dict[str, _Root | _Derived] = {}
        self.files: dict[str, bytes | None] = {}
        self.moved: dict[str, str] = {}
        self._rows = 0
        self._names = 0
        self._faulty = self._draw.random() < 0.5
        for _ in range(self._draw.randint(1, 2)):
            self._add_root()
        for _ in range(self._draw.randint(0, 4)):
            self._add_derived()

    def changed(self) -> list[str]:
        """Change something; return what, in words."""
        made = []
        for _ in range(self._draw.choice((1, 1, 2, 3))):
            change = self._draw.choice(_CHANGES)
            said = change(self)
            made += [said] if said else []
        return made

    def laid_out(self) -> Mapping[str, bytes | None]:
        """Return all files of the project, None for those to be deleted."""
        found: dict[str, bytes | None] = {
            "odfbuild.yaml": json.dumps(self.settings()).encode(),
            **{name: text.encode() for name, text in self.placed(self.definitions()).items()},
        }
        gone = {name for name in self.files if not name.startswith("data/")} - found.keys()
        self.files |= {**found, **dict.fromkeys(gone)}
        return self.files

    def settings(self) -> dict[str, Any]:
        """Return what odfbuild.yaml holds."""
        moved = [{"from": old, "to": new} for old, new in self.moved.items()]
        return {"odfbuild": 1, "name": "drawn", "moved": moved}

    def definitions(self) -> dict[str, Mapping[str, Any]]:
        """Return all definitions by name."""
        return {name: self._definition(name, each) for name, each in self.datasets.items()}

    def placed(self, definitions: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
        """Return the files that definitions are in."""
        return {f"datasets/{n}.yaml": json.dumps(d, indent=1) for n, d in definitions.items()}

    def known(self) -> dict[str, tuple[dict[str, str], str]]:
        """Return the columns and the event time of all that may be an input."""
        return {name: (each.columns, each.time) for name, each in self.datasets.items()}

    # Datasets

    def _name(self, kind: str) -> str:
        self._names += 1
        return f"{kind}{self._names}"

    def _add_root(self) -> str:
        draw = self._draw
        time = draw.choice(("t", "t", "event_time", "day"))
        columns = {time: draw.choice(("TIMESTAMP", "TIMESTAMP", "DATE")), "k": "STRING"}
        for name in draw.sample(("v", "w", "d", "x"), draw.randint(0, 3)):
            columns[name] = {"v": "BIGINT", "d": "DOUBLE"}.get(name) or draw.choice(_TYPES)
        merge = draw.choice(_MERGES)
        asks = TRAITS[merge].operations
        if asks is Operations.REQUIRED or (asks is Operations.OPTIONAL and draw.random() < 0.5):
            columns = {"op": "INT", **columns}
        root = _Root(columns, time, draw.choice(_FORMATS), merge, sure=draw.random() < 0.7)
        if self._faulty and draw.random() < 0.4:
            root.fault = draw.choice(_ROOT_FAULTS)
        name = self._name("r")
        self.datasets[name] = root
        for _ in range(draw.choice((0, 1, 1, 2))):
            self._add_file(name)
        return f"root {name}"

    def _add_derived(self) -> str:
        draw = self._draw
        known = list(self.known())
        inputs = draw.sample(known, min(len(known), draw.choice((1, 1, 2))))
        found = self._query(inputs)
        name = self._name("d")
        self.datasets[name] = found
        return f"derivative {name}"

    def _query(self, inputs: list[str]) -> _Derived:
        draw = self._draw
        forms: list[_Query] = [_project, _filter, _computed, _group, _group_hidden, _distinct]
        forms += [_tumble, _total, _rank, _month, _by_expression]
        if len(inputs) == 2:
            forms = [_union, _join, _left_join, _anti_join]
        if self._faulty and draw.random() < 0.3:
            forms = _FAULTY_FORMS
        seen = [self.known()[name] for name in inputs]
        visible = [({c: t for c, t in columns.items() if c != "op"}, at) for columns, at in seen]
        query, columns, time = draw.choice(forms)(draw, visible)
        made = _Derived(list(inputs), query, columns, time)
        if self._faulty and draw.random() < 0.2:
            made.extra = draw.choice(_TRANSFORM_FAULTS)
        made.is_astray = self._faulty and draw.random() < 0.1
        return made

    def _definition(self, name: str, each: _Root | _Derived) -> Mapping[str, Any]:
        vocab = {"kind": "SetVocab", "eventTimeColumn": each.time}
        if isinstance(each, _Derived):
            transform = {"kind": "Sql", "engine": "spark", "query": each.query, **each.extra}
            aliases = ("a", "b")
            refs = [
                {"datasetRef": r, "alias": a} for r, a in zip(each.inputs, aliases, strict=False)
            ]
            if each.is_astray:
                refs[0]["datasetRef"] = "nowhere"
            metadata = [{"kind": "SetTransform", "inputs": refs, "transform": transform}, vocab]
        else:
            metadata = [_source(name, each), vocab]
            if each.fault == "second source":
                metadata.append(_source(name, each))
            if each.fault == "time typo":
                vocab["eventTimeColumn"] = each.time + "x"
        if each.note:
            metadata.append({"kind": "SetInfo", "description": f"note {each.note}"})
        kind = "Derivative" if isinstance(each, _Derived) else "Root"
        content = {"name": name, "kind": kind, "metadata": metadata}
        return {"kind": "DatasetSnapshot", "version": 1, "content": content}

    # Data

    def _add_file(self, name: str) -> str:
        root = self.datasets[name]
        assert isinstance(root, _Root)
        root.files += 1
        rows = [self._row(root, n) for n in range(self._draw.randint(1, 4))]
        path = f"data/{name}/{root.files:03}.{_SUFFIX[root.format]}"
        self.files[path] = _written(root, rows)
        return f"file {path}"

    def _row(self, root: _Root, number: int) -> dict[str, Any]:
        """Return a row whose key no other row of its file has, for every merge to take."""
        self._rows += 1
        values: dict[str, Any] = {}
        for name, kind in root.columns.items():
            values[name] = _value(self._draw, kind)
        values[root.time] = _moment(root.columns[root.time], self._rows)
        again = self._draw.random() < 0.3 and not _is_changelog(root)
        values["k"] = f"k{number if again else self._rows}"
        if "op" in root.columns:
            values["op"] = 0
        return values

    # Changes

    def change_files(self) -> str | None:
        roots = [n for n, each in self.datasets.items() if isinstance(each, _Root)]
        return self._add_file(self._draw.choice(roots)) if roots else None

    def change_note(self) -> str:
        name = self._draw.choice(list(self.datasets))
        self.datasets[name].note += 1
        return f"note of {name}"

    def change_query(self) -> str | None:
        derived = [n for n, each in self.datasets.items() if isinstance(each, _Derived)]
        if not derived:
            return None
        name = self._draw.choice(derived)
        old = self.datasets[name]
        assert isinstance(old, _Derived)
        if not self.known().keys() >= set(old.inputs):
            return None  # what it reads is gone
        self.datasets[name] = self._query(old.inputs)
        self.datasets[name].note = old.note
        return f"query of {name}"

    def change_column(self) -> str | None:
        """Add a column to a root, or give one another type or name."""
        draw = self._draw
        roots = [n for n, each in self.datasets.items() if isinstance(each, _Root)]
        if not roots:
            return None
        name = draw.choice(roots)
        root = self.datasets[name]
        assert isinstance(root, _Root)
        root.columns = dict(root.columns)
        others = [c for c in root.columns if c not in {root.time, "k", "op"}]
        if others and draw.random() < 0.6:
            column = draw.choice(others)
            if draw.random() < 0.5:
                root.columns[column] = draw.choice(_TYPES)
                root.is_retyped = True
                return f"type of {name}.{column}"
            root.columns = {(c if c != column else "z" + c): t for c, t in root.columns.items()}
            return f"name of {name}.{column}"
        root.columns[f"n{len(root.columns)}"] = draw.choice(_TYPES)
        return f"column of {name}"

    def change_name(self) -> str | None:
        name = self._draw.choice(list(self.datasets))
        if name in self.moved.values():
            return None
        new = self._name("m")
        self.datasets = {(new if n == name else n): each for n, each in self.datasets.items()}
        for each in self.datasets.values():
            if isinstance(each, _Derived):
                each.inputs = [new if i == name else i for i in each.inputs]
        if isinstance(self.datasets[new], _Root):
            for path in [p for p in self.files if p.startswith(f"data/{name}/")]:
                self.files[path.replace(f"/{name}/", f"/{new}/")] = self.files[path]
                self.files[path] = None
        renamed = self.datasets[new]
        retyped = isinstance(renamed, _Root) and renamed.is_retyped
        if self._draw.random() < 0.85 or retyped:
            self.moved[name] = new
            return f"{name} is {new}"
        return f"{name} is {new}, unsaid"

    def change_merge(self) -> str | None:
        name = self._draw.choice(list(self.datasets))
        each = self.datasets[name]
        if not isinstance(each, _Root) or "op" in each.columns:
            return None
        plain = [kind for kind in _MERGES if TRAITS[kind].operations is Operations.NONE]
        each.merge = self._draw.choice(plain)
        return f"merge of {name}"

    def change_kind(self) -> str | None:
        name = self._draw.choice(list(self.datasets))
        each = self.datasets[name]
        if isinstance(each, _Root) or not self._faulty:
            return None
        columns = {"t": "TIMESTAMP", "k": "STRING"}
        self.datasets[name] = _Root(columns, "t", "Csv", MergeStrategyAppend)
        self._add_file(name)
        return f"kind of {name}"

    def change_time(self) -> str | None:
        name = self._draw.choice(list(self.datasets))
        each = self.datasets[name]
        if isinstance(each, _Derived):
            return None
        times = [c for c, t in each.columns.items() if t in {"DATE", "TIMESTAMP"}]
        each.time = self._draw.choice(times)
        return f"event time of {name}"

    def change_gone(self) -> str | None:
        """Delete a definition; what reads it stays."""
        name = self._draw.choice(list(self.datasets))
        read = {i for e in self.datasets.values() if isinstance(e, _Derived) for i in e.inputs}
        if len(self.datasets) == 1 or (name in read and self._draw.random() < 0.9):
            return None
        del self.datasets[name]
        return f"{name} is gone"

    def change_more(self) -> str:
        return self._add_root() if self._draw.random() < 0.3 else self._add_derived()


_CHANGES: tuple[Callable[[Drawn], str | None], ...] = (
    Drawn.change_files,
    Drawn.change_files,
    Drawn.change_files,
    Drawn.change_note,
    Drawn.change_query,
    Drawn.change_query,
    Drawn.change_column,
    Drawn.change_column,
    Drawn.change_name,
    Drawn.change_merge,
    Drawn.change_kind,
    Drawn.change_time,
    Drawn.change_gone,
    Drawn.change_more,
)

# Sources

_TRANSFORM_FAULTS: tuple[Mapping[str, Any], ...] = (
    {"version": "3.1.0"},
    {"engine": "flink"},
    {"engin": "spark"},
    {"queries": [{"query": "select 1"}]},
    {"kind": "Sequel"},
)
_ROOT_FAULTS = (
    "time typo", "no key", "system column", "twice", "bad type", "bad glob", "preprocess column",
    "preprocess function", "preprocess constant", "preprocess without op", "unknown field",
    "no way to fetch", "second source",
)  # fmt: skip


def _source(name: str, root: _Root) -> dict[str, Any]:
    schema = [
        f"{n} {t}" + (" NOT NULL" if n in {"k", "op"} or (n == root.time and root.sure) else "")
        for n, t in root.columns.items()
    ]
    if root.fault == "system column":
        schema.append("system_time TIMESTAMP")
    if root.fault == "twice":
        schema.append("k STRING")
    if root.fault == "bad type":
        schema[-1] = schema[-1].split(" ")[0] + " NOTHING"
    read: dict[str, Any] = {"kind": root.format, "schema": schema}
    if root.format == "Csv":
        read["header"] = True
    merge: dict[str, Any] = {"kind": name_of(root.merge)}
    if hasattr(root.merge, "primary_key"):
        merge["primaryKey"] = ["nokey" if root.fault == "no key" else "k"]
    path = "missing/*" if root.fault == "bad glob" else f"data/{name}/*.{_SUFFIX[root.format]}"
    source: dict[str, Any] = {
        "kind": "SetPollingSource",
        "fetch": {"kind": "FilesGlob", "path": path},
        "read": read,
        "merge": merge,
    }
    names = ", ".join(root.columns)
    preprocess = {
        "preprocess column": f"select {names}, nowhere as y from input",
        "preprocess function": f"select {names}, floor_of(k) as y from input",
        "preprocess constant": f"select {names}, k rlike '(' as y from input",
        "preprocess without op": f"select {root.time}, k from input",
    }.get(root.fault)
    if root.fault == "preprocess without op" and not _is_changelog(root):
        preprocess = None  # that would be no fault
    if root.fault == "unknown field":
        source["mrege"] = {}
    if root.fault == "no way to fetch":
        source["fetch"] = {"kind": "EthereumLogs"}
    if preprocess:
        source["preprocess"] = {"kind": "Sql", "engine": "spark", "query": preprocess}
    return source


def _moment(kind: str, number: int) -> datetime:
    found = _DAY + timedelta(days=number)
    return found if kind == "TIMESTAMP" else found.replace(hour=0)


def _value(draw: Random, kind: str) -> Any:
    if draw.random() < 0.15:
        return None
    match kind:
        case "STRING":
            return draw.choice(("p", "q", ""))
        case "BOOLEAN":
            return draw.random() < 0.5
        case "DATE" | "TIMESTAMP":
            return _moment(kind, draw.randint(0, 60))
        case "DOUBLE":
            return draw.choice((0.5, 1.25, -2.0))
    return draw.randint(0, 9)


def _written(root: _Root, rows: list[dict[str, Any]]) -> bytes:
    kinds = root.columns
    if root.format == "Parquet":
        plain = [
            {n: v.date() if kinds[n] == "DATE" and v is not None else v for n, v in row.items()}
            for row in rows
        ]
        schema = pa.schema([(n, _ARROW[t]) for n, t in kinds.items()])
        sink = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(plain, schema), sink)
        return sink.getvalue()
    told = [{n: _text(kinds[n], v) for n, v in row.items()} for row in rows]
    if root.format == "Csv":
        lines = [",".join(kinds)]
        lines += [",".join("" if v is None else _bare(v) for v in row.values()) for row in told]
        return ("\n".join(lines) + "\n").encode()
    if root.format == "Json":
        return json.dumps(told).encode()
    return "".join(json.dumps(row) + "\n" for row in told).encode()


def _bare(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _text(kind: str, value: Any) -> Any:
    if value is None or kind not in {"DATE", "TIMESTAMP"}:
        return value
    return f"{value:%Y-%m-%d}" if kind == "DATE" else f"{value:%Y-%m-%dT%H:%M:%SZ}"


# Queries: each form gives its text, the columns that come out, and the event time

_Seen = list[tuple[dict[str, str], str]]
_Form = tuple[str, dict[str, str], str]
_Query = Callable[[Random, _Seen], _Form]


def _others(draw: Random, columns: dict[str, str], time: str) -> list[str]:
    rest = [c for c in columns if c != time]
    return draw.sample(rest, draw.randint(0, len(rest)))


def _project(draw: Random, seen: _Seen) -> _Form:
    columns, time = seen[0]
    kept = _others(draw, columns, time)
    if draw.random() < 0.3:
        return "select * from a", dict(columns), time
    new = draw.choice((time, "at"))
    names = {c: draw.choice((c, c, f"{c}_2")) for c in kept}
    items = [f"{time} as {new}" if new != time else time]
    items += [c if c == n else f"{c} as {n}" for c, n in names.items()]
    made = {new: columns[time], **{n: columns[c] for c, n in names.items()}}
    return f"select {', '.join(items)} from a", made, new


def _filter(draw: Random, seen: _Seen) -> _Form:
    columns, time = seen[0]
    column = draw.choice(list(columns))
    return f"select * from a where {column} is not null", dict(columns), time


def _computed(draw: Random, seen: _Seen) -> _Form:
    columns, time = seen[0]
    column = draw.choice(list(columns))
    query = f"select {time}, cast({column} as string) as text, length('abc') as n from a"
    return query, {time: columns[time], "text": "STRING", "n": "INT"}, time


def _group(draw: Random, seen: _Seen) -> _Form:
    columns, time = seen[0]
    key = draw.choice([c for c in columns if c != time] or [time])
    other = draw.choice(list(columns))
    made = {time: columns[time], "c": "BIGINT", "top": columns[other], "n": "BIGINT"}
    if key == time:
        query = f"select {time}, count({other}) as c, max({other}) as top, count(*) as n from a"
        return f"{query} group by {time}", made, time
    made = {time: columns[time], key: columns[key], **{k: made[k] for k in ("c", "top", "n")}}
    made |= {"c": "BIGINT"}
    query = f"select max({time}) as {time}, {key}, count({other}) as c, max({other}) as top, "
    if {key} & {"c", "top", "n"}:
        return _project(draw, seen)
    return f"{query}count(*) as n from a group by {key}", made, time


def _group_hidden(draw: Random, seen: _Seen) -> _Form:
    columns, time = seen[0]
    key = draw.choice(list(columns))
    query = f"select max({time}) as {time}, count(*) as n from a group by {key}"
    return query, {time: columns[time], "n": "BIGINT"}, time


def _by_expression(draw: Random, seen: _Seen) -> _Form:
    columns, time = seen[0]
    key = draw.choice(list(columns))
    query = (
        f"select max({time}) as {time}, upper(cast({key} as string)) as u, sum(1) as n from a "
        f"group by upper(cast({key} as string))"
    )
    return query, {time: columns[time], "u": "STRING", "n": "BIGINT"}, time


def _distinct(draw: Random, seen: _Seen) -> _Form:
    columns, time = seen[0]
    names = [time, *_others(draw, columns, time)]
    return f"select distinct {', '.join(names)} from a", {n: columns[n] for n in names}, time


def _rank(draw: Random, seen: _Seen) -> _Form:
    columns, time = seen[0]
    key = draw.choice(list(columns))
    query = f"select {time}, rank() over (partition by {key} order by {time}) as place from a"
    return query, {time: columns[time], "place": "INT"}, time


def _tumble(draw: Random, seen: _Seen) -> _Form:
    _columns, time = seen[0]
    length = f"interval '{draw.randint(1, 9)}' day"
    query = f"select tumble_start({time}, {length}) as {time}, count(*) as n from a "
    made = {time: "TIMESTAMP", "n": "BIGINT"}
    return f"{query}group by tumble({time}, {length})", made, time


def _month(draw: Random, seen: _Seen) -> _Form:
    _, time = seen[0]
    length = draw.choice(("'1' month", "'1' quarter", "2 months", "'1' year"))
    query = f"select tumble_rowtime({time}, interval {length}) as {time}, count(*) as n from a "
    made = {time: "TIMESTAMP", "n": "BIGINT"}
    return f"{query}group by tumble({time}, interval {length})", made, time


def _total(draw: Random, seen: _Seen) -> _Form:
    columns, time = seen[0]
    query = f"select max({time}) as {time}, count(*) as n from a"
    return (
        query + draw.choice(("", " having count(*) > 0")),
        {time: columns[time], "n": "BIGINT"},
        time,
    )


def _union(draw: Random, seen: _Seen) -> _Form:
    (one, time), (_, other) = seen
    query = f"select {time}, 'a' as side from a union all select {other}, 'b' from b"
    kind = one[time] if one[time] == seen[1][0][other] else "TIMESTAMP"
    return query, {time: kind, "side": "STRING"}, time


def _joined(draw: Random, seen: _Seen, how: str) -> _Form:
    (one, time), (two, _) = seen
    left, right = draw.choice(list(one)), draw.choice(list(two))
    alike = [(c, d) for c in one for d in two if one[c] == two[d]]
    left, right = draw.choice(alike) if alike else (time, seen[1][1])
    other = draw.choice(list(two))
    query = f"select a.{time}, b.{other} as other from a {how} join b on a.{left} = b.{right}"
    return query, {time: one[time], "other": two[other]}, time


def _join(draw: Random, seen: _Seen) -> _Form:
    return _joined(draw, seen, "inner")


def _left_join(draw: Random, seen: _Seen) -> _Form:
    return _joined(draw, seen, "left")


def _anti_join(draw: Random, seen: _Seen) -> _Form:
    (one, time), (_two, other) = seen
    query = f"select * from a left anti join b on a.{time} = b.{other}"
    return query, dict(one), time


def _faulty(text: str) -> _Query:
    def form(draw: Random, seen: _Seen) -> _Form:
        columns, time = seen[0]
        query = text.replace("TIME", time).replace("COLUMN", draw.choice(list(columns)))
        return query, {time: columns[time]}, time

    return form


_FAULTY_FORMS = [
    _faulty(text)
    for text in (
        "select TIME, nowhere from a",
        "select TIME, cuont(COLUMN) as n from a",
        "select COLUMN as other from a",
        "select COLUMN as TIME from a",
        "select cast(COLUMN as string) as TIME from a",
        "select TIME, null as n from a",
        "select TIME, TIME - timestamp'2020-01-01' as n from a",
        "select TIME, interval '1' month as n from a",
        "select TIME, COLUMN, COLUMN from a",
        "select TIME, 1 as op from a",
        "select TIME, 1 as offset from a",
        "select TIME, map('a', COLUMN) as m from a",
        "select TIME, array(struct(COLUMN)) as m from a",
        "select TIME, struct(COLUMN) as m, array(COLUMN) as n from a",
        "select TIME, rand() as n from a",
        "select TIME, sum(cast(1 as double)) over (partition by COLUMN) as n from a",
        "select TIME, avg(length(cast(COLUMN as string))) over (order by TIME) as n from a",
        "select TIME, first(COLUMN) as n from a group by TIME",
        "select TIME from a limit 3",
        "select TIME from a order by TIME",
        "select TIME from b",
        "select TIME, from a",
        "select count(*) as n from a",
        "select date_trunc('month', TIME) as TIME, stddev(1) as n from a group by 1",
        "select max(TIME) as TIME from a group by window(TIME, '1 month')",
        "select max(TIME) as TIME from a group by tumble(TIME, interval '5' month)",
        "select window.start as TIME, count(*) as n from a group by window(TIME, '3 days')",
        "select session_window.end as TIME, count(*) as n from a "
        "group by session_window(TIME, '3 days')",
        "select x.TIME from a left join a x on x.TIME = a.TIME",
        "select x.TIME, a.COLUMN as n from a left join a x on x.TIME = a.TIME "
        "where x.TIME is not null",
        "select TIME, parse_json('1') as n from a",
        "select TIME, cast(null as binary) as n, cast(COLUMN as string) as `a b` from a",
        "select TIME, 1 from a",
        "select TIME, upper(cast(COLUMN as string)) from a",
        "with x as (select * from a) select * from x",
        "select TIME, COLUMN as `TIME ` from a",
        "select a.* except (COLUMN) from a",
        "select TIME, (select max(TIME) from a) as n from a",
        "select TIME, count(*) as n from a group by rollup(TIME)",
        "select TIME, count(*) as n from a group by all",
        "select TIME, explode(array(1, 2)) as n from a",
        "select * from a pivot (count(*) for k in ('p', 'q'))",
        "select TIME, op from a",
        "select TIME, cast(COLUMN as string) rlike '(a' as n from a",
        "select TIME, regexp_extract(cast(COLUMN as string), 'a') as n from a",
        "select TIME, date_format(TIME, 'YYYY') as n from a",
        "select TIME, cast('x' as int) as n from a",
        "select TIME, element_at(array(COLUMN), 0) as n from a",
        "select TIME, 1 / 0 as n from a",
        "select TIME, split_part(cast(COLUMN as string), '-', 0) as n from a",
        "select TIME, schema_of_json(cast(COLUMN as string)) as n from a",
        "select TIME, array() as n from a",
        "select TIME, variant_get(parse_json(cast(COLUMN as string)), '$.a') as n from a",
        "select max(TIME) as TIME, regr_avgy(cast(1 as decimal(4, 1)), 1) as n from a "
        "group by TIME",
        "from a order by TIME limit 3",
        "from a",
    )
]
