"""Projects whose queries are for DataFusion, drawn by a seed, and edits of their files."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["DrawnProject", "derivative"]

_SETTINGS = "odfbuild: 1\nname: drawn\nengine: {ingest: arrow}\n"
_BIGINT, _TEXT, _DECIMAL, _DOUBLE, _BOOLEAN, _DATE, _TIME, _LIST = (
    *("BIGINT", "STRING", "DECIMAL(12,3)", "DOUBLE", "BOOLEAN", "DATE", "TIMESTAMP", "list"),
)
_FORMS = {
    _BIGINT: (
        *("{BIGINT} + 1", "{BIGINT} * {BIGINT}", "coalesce({BIGINT}, 0)", "length({STRING})"),
        *("cast({BIGINT} as int)", "abs({BIGINT})", "-{BIGINT}", "{BIGINT} / 2", "{BIGINT} % 3"),
        *("extract(year from {DATE})", "case when {BOOLEAN} then {BIGINT} end", "{list}[1]"),
        *("cast({DOUBLE} as bigint)", "date_part('hour', {TIMESTAMP})", "array_length({list})"),
        *("greatest({BIGINT}, 3)", "cast({BIGINT} as smallint)", "ascii({STRING})", "7"),
        *("char_length({STRING})", "strpos({STRING}, 'a')", "nullif({BIGINT}, 1)"),
        "to_unixtime({TIMESTAMP})",
    ),
    _TEXT: (
        *("upper({STRING})", "{STRING} || 'x'", "concat({STRING}, '-', {STRING})", "'c'"),
        *("coalesce({STRING}, 'n')", "substr({STRING}, 1, 1)", "cast({BIGINT} as varchar)"),
        *("cast({DATE} as varchar)", "case {STRING} when 'a' then 'b' else {STRING} end"),
        *("replace({STRING}, 'a', 'e')", "to_char({DATE}, '%Y')", "md5({STRING})"),
        "reverse({STRING})",
        *("lpad({STRING}, 3, '0')", "split_part({STRING}, 'a', 1)", "cast({DECIMAL} as varchar)"),
    ),
    _DECIMAL: (
        *("{DECIMAL} + {DECIMAL}", "{DECIMAL} * 2", "cast({BIGINT} as decimal(10, 2))"),
        *("round({DECIMAL}, 1)", "abs({DECIMAL})", "coalesce({DECIMAL}, 0)"),
        "{DECIMAL} * {DECIMAL}",
        *("{DECIMAL} / 3", "-{DECIMAL}", "{DECIMAL} + 1", "{DECIMAL} - {BIGINT}"),
        "floor({DECIMAL})",
    ),
    _DOUBLE: (
        *("{DOUBLE} * 2", "cast({DECIMAL} as double)", "sqrt(abs({DOUBLE}))"),
        "{DOUBLE} + {BIGINT}",
        *("floor({DOUBLE})", "round({DOUBLE}, 1)", "cast({BIGINT} as double) / 3"),
        "power(2, {BIGINT})",
        *("cast({DOUBLE} as real)", "{DECIMAL} + {DOUBLE}", "1.5", "cast({BIGINT} as real)"),
    ),
    _BOOLEAN: (
        *("{BIGINT} > 1", "{STRING} = 'a'", "{STRING} is null", "{BOOLEAN} and {BIGINT} < 5"),
        *("not {BOOLEAN}", "{STRING} in ('a', 'b')", "{DATE} > date '2024-01-01'", "true"),
        *("{STRING} like 'a%'", "{DOUBLE} between 0 and 1", "{list} is not null"),
    ),
    _DATE: (
        *("cast({TIMESTAMP} as date)", "date_trunc('month', {DATE})", "{DATE} + interval '1 day'"),
        *("coalesce({DATE}, date '2024-01-01')", "cast({DATE} as timestamp)", "date '2024-05-05'"),
    ),
    _TIME: (
        *("date_trunc('hour', {TIMESTAMP})", "{TIMESTAMP} + interval '1 hour'"),
        *("date_bin(interval '2 hours', {TIMESTAMP})", "cast({DATE} as timestamp)"),
    ),
    _LIST: (
        *("make_array({BIGINT}, 1)", "array_append({list}, {BIGINT})"),
        "string_to_array({STRING}, 'a')",
        *("make_array({STRING})", "named_struct('x', {BIGINT}, 'y', {STRING})", "make_array(1.5)"),
        "array_sort({list})",
    ),
}  # fmt: skip
_AGGREGATES = (
    *("count(*)", "sum({BIGINT})", "max({STRING})", "min({DATE})", "avg({DECIMAL})"),
    "sum({DECIMAL})",
    *("max({DOUBLE})", "count(distinct {STRING})", "bool_or({BOOLEAN})", "avg({BIGINT})"),
    "median({BIGINT})",
    *("array_agg({BIGINT} order by {BIGINT})", "string_agg({STRING}, ',' order by {STRING})"),
    *("max({DECIMAL}) - min({DECIMAL})", "approx_distinct({STRING})", "max({TIMESTAMP})"),
    "stddev({BIGINT})",
    *("bit_or({BIGINT})", "first_value({STRING} order by {BIGINT})"),
    "sum({BIGINT}) filter (where {BOOLEAN})",
)  # fmt: skip
_WINDOWS = (
    *("count(*) over (partition by {STRING})", "sum({BIGINT}) over (partition by {STRING})"),
    *("row_number() over (partition by {STRING} order by {BIGINT}, t)"),
    "lag({DECIMAL}) over (order by t)",
    *("rank() over (order by {BIGINT})", "avg({DECIMAL}) over (partition by {BOOLEAN})"),
    *("first_value({DATE}) over (partition by {STRING} order by t)", "ntile(2) over (order by t)"),
)  # fmt: skip
_NAMES = ("a", "b", "c", "e", "g", "h", "k", "v", "d")
_TABLES = {
    "src": (
        *(("k", _TEXT), ("v", _BIGINT), ("d", _DECIMAL), ("f", _DOUBLE), ("b", _BOOLEAN)),
        *(("day", _DATE), ("at", _TIME), ("i", "INT")),
    ),
    "other": (("k", _TEXT), ("w", _BIGINT), ("d", _DECIMAL)),
}
_VALUES = {
    _TEXT: ("a", "b", "ab", ""),
    _BIGINT: ("1", "2", "30", ""),
    "INT": ("1", "2", ""),
    _DECIMAL: ("1.5", "2.125", ""),
    _DOUBLE: ("0.5", "2.25", ""),
    _BOOLEAN: ("true", "false", ""),
    _DATE: ("2024-01-01", "2024-02-29", ""),
    _TIME: ("2024-01-01T01:30:00Z", ""),
}


@dataclass(slots=True)
class _Query:
    """A query in its parts; `items` are values and names."""

    reads: tuple[str, ...]
    items: list[tuple[str, str]]
    shape: str
    where: str = ""
    join: str = "join"


@dataclass(slots=True)
class DrawnProject:
    """A project of two roots and queries over them and each other."""

    seed: int
    draw: random.Random = field(init=False)
    columns: dict[str, list[tuple[str, str]]] = field(init=False)
    required: set[tuple[str, str]] = field(default_factory=set)
    queries: dict[str, _Query] = field(default_factory=dict)
    days: int = 0

    def __post_init__(self) -> None:
        self.draw = random.Random(f"project {self.seed}")
        self.columns = {name: list(each) for name, each in _TABLES.items()}
        for name, each in self.columns.items():
            self.required |= {(name, column) for column, _ in each if self.draw.random() < 0.15}
        for number in range(self.draw.randint(1, 3)):
            self.queries[f"q{number}"] = self._drawn(number)

    def files(self) -> dict[str, str]:
        """Return the files of the project, with rows that were not there before."""
        self.days += 1
        files = {"odfbuild.yaml": _SETTINGS}
        for name, columns in self.columns.items():
            files[f"datasets/{name}.yaml"] = self._root(name)
            files[f"data/{name}/{self.days}.csv"] = self._rows(name, columns)
        for name, text in self.texts().items():
            files[f"datasets/{name}.yaml"] = derivative(name, self.queries[name].reads, text)
        return files

    def texts(self) -> dict[str, str]:
        """Return the queries by their names."""
        return {name: self._text(query) for name, query in self.queries.items()}

    def edit(self) -> None:
        """Change one to three things."""
        for _ in range(self.draw.randint(1, 3)):
            self.draw.choice(
                (self._edit_query, self._edit_query, self._edit_query, self._edit_root)
            )()

    # Roots

    def _root(self, name: str) -> str:
        columns = ", ".join(
            f"{c} {kind}{' NOT NULL' if (name, c) in self.required else ''}"
            for c, kind in self.columns[name]
        )
        return _snapshot(
            name,
            "Root",
            "    - kind: SetPollingSource\n"
            f"      fetch: {{kind: FilesGlob, path: data/{name}/*.csv}}\n"
            "      read: {kind: Csv, header: true, "
            f'schema: ["t TIMESTAMP", {_quoted(columns)}]}}\n'
            "      merge: {kind: Append}\n",
        )

    def _rows(self, name: str, columns: Sequence[tuple[str, str]]) -> str:
        lines = [",".join(["t", *(column for column, _ in columns)])]
        for number in range(4):
            cells = [
                self.draw.choice(_VALUES[kind][: -1 if (name, column) in self.required else None])
                for column, kind in columns
            ]
            lines.append(",".join([f"2024-01-{self.days:02}T0{number}:00:00Z", *cells]))
        return "\n".join([*lines, ""])

    def _edit_root(self) -> None:
        name = self.draw.choice(list(self.columns))
        columns = self.columns[name]
        if self.draw.random() < 0.6:
            new = f"n{len(columns)}{self.days}"
            columns.append((new, self.draw.choice(list(_VALUES))))
        elif len(columns) > 2:
            columns.remove(self.draw.choice(columns))

    # Queries

    def _drawn(self, number: int) -> _Query:
        shape = self.draw.choice(
            (
                "plain",
                "plain",
                "star",
                "grouped",
                "joined",
                "united",
                "windowed",
                "common",
                "filtered",
            )
        )
        reads: tuple[str, ...] = (
            self.draw.choice(("src", "src", *(f"q{n}" for n in range(number)))),
        )
        if shape == "joined":
            reads = ("src", "other")
        query = _Query(reads, [], shape, join=self.draw.choice(("join", "left join", "left join")))
        names = self.draw.sample(_NAMES, self.draw.randint(1, 4))
        query.items = [(self._value(query), name) for name in names]
        return query

    def _value(self, query: _Query) -> str:
        draw = self.draw
        if query.reads[0].startswith("q"):
            items = [name for _, name in self.queries[query.reads[0]].items]
            name = draw.choice(items)
            forms: tuple[str, ...] = (
                "{}",
                "{}",
                "coalesce({}, null)",
                "cast({} as varchar)",
                "{} is null",
                "count({}) over ()",
            )
            if query.shape == "grouped":
                forms = ("max({})", "count({})", "min({})", "count(distinct {})")
            return draw.choice(forms).format(name)
        if query.shape == "grouped":
            return self._filled(draw.choice(_AGGREGATES), 1)
        if query.shape == "windowed" and draw.random() < 0.6:
            return self._filled(draw.choice(_WINDOWS), 1)
        kind = draw.choice(list(_FORMS))
        return self._filled(draw.choice(_FORMS[kind]), 2)

    def _filled(self, form: str, depth: int) -> str:
        for kind in _FORMS:
            while "{" + kind.partition("(")[0] + "}" in form:
                mark = "{" + kind.partition("(")[0] + "}"
                form = form.replace(mark, self._operand(kind, depth), 1)
        return form

    def _operand(self, kind: str, depth: int) -> str:
        if depth > 1 and kind != _LIST and self.draw.random() < 0.3:
            return f"({self._filled(self.draw.choice(_FORMS[kind]), depth - 1)})"
        own = [name for name, each in _TABLES["src"] if each == kind]
        if not own:
            return "make_array(v, 2)"
        return f"src.{own[0]}"

    def _text(self, query: _Query) -> str:
        one = query.reads[0]
        items = ", ".join(f"{value} as {name}" for value, name in query.items)
        items = items if one == "src" else items.replace("src.", "")
        where = f" where {query.where}" if query.where else ""
        match query.shape:
            case "star":
                taken = {name for _, name in query.items}
                left_out = [n for n, _ in self.columns["src"] if n in taken] if one == "src" else []
                if one != "src":
                    return f"select *, 1 as more from {one}{where}"
                star = f"* except ({', '.join(left_out)})" if left_out else "*"
                return f"select {star}, {items} from {one}{where}"
            case "grouped":
                return (
                    f"select max(t) as t, {items} from {one}{where} group by date_trunc('day', t)"
                )
            case "joined":
                joined = f"src {query.join} other on src.k = other.k"
                return f"select src.t, {items}, other.w as w from {joined}{where}"
            case "united":
                return f"select t, {items} from {one}{where} union all select t, {items} from {one}"
            case "common":
                items = items.replace("src.", "")
                return f"with p as (select * from {one}{where}) select t, {items} from p"
            case _:
                return f"select t, {items} from {one}{where}"

    def _edit_query(self) -> None:
        query = self.queries[self.draw.choice(list(self.queries))]
        match self.draw.randrange(6):
            case 0 | 1:
                free = [each for each in _NAMES if each not in {name for _, name in query.items}]
                at = self.draw.randint(0, len(query.items))
                query.items.insert(at, (self._value(query), self.draw.choice(free)))
            case 2:
                at = self.draw.randrange(len(query.items))
                query.items[at] = (self._value(query), query.items[at][1])
            case 3 if len(query.items) > 1:
                query.items.pop(self.draw.randrange(len(query.items)))
            case 4:
                self.draw.shuffle(query.items)
            case _:
                query.where = self.draw.choice(("", "t is not null", "t > timestamp '2023-01-01'"))


def _quoted(columns: str) -> str:
    parts, depth, start = [], 0, 0
    for at, sign in enumerate(columns):
        depth += (sign == "(") - (sign == ")")
        if sign == "," and depth == 0:
            parts.append(columns[start:at].strip())
            start = at + 1
    return ", ".join(f'"{each}"' for each in [*parts, columns[start:].strip()])


def derivative(name: str, reads: Sequence[str], query: str) -> str:
    """Return a dataset that a query for DataFusion makes."""
    inputs = "".join(f"        - {{datasetRef: {each}, alias: {each}}}\n" for each in reads)
    return _snapshot(
        name,
        "Derivative",
        f"    - kind: SetTransform\n      inputs:\n{inputs}"
        "      transform:\n        kind: Sql\n        engine: datafusion\n"
        f"        query: >-\n          {query}\n",
    )


def _snapshot(name: str, kind: str, event: str) -> str:
    vocab = "    - {kind: SetVocab, eventTimeColumn: t}\n"
    return (
        "kind: DatasetSnapshot\nversion: 1\ncontent:\n"
        f"  name: {name}\n  kind: {kind}\n  metadata:\n{event}{vocab}"
    )
