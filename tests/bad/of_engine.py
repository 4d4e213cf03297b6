"""Rows that the engine refuses: queries that fail on their data, and what no strategy can merge."""

from typing import Any

from tests.bad.case import Bad, flow

__all__ = ["MERGES", "QUERIES"]

READ = flow("Csv", "k STRING", "v INT", header="true")
ROWS = "k,v\na,1\nb,2\n"


def query(text: str, says: str, fix: str, *, code: str = "invalid-query", **more: Any) -> Bad:
    """Return a preprocess query that fails on good rows."""
    quoted = text.replace("'", "''")
    preprocess = f"{{kind: Sql, engine: spark, query: '{quoted}'}}"
    return Bad(code=code, says=says, fix=fix, read=READ, data=ROWS, preprocess=preprocess, **more)


QUERIES = {
    "a division by zero": query(
        "select k, 1 / (v - 2) as x from input", "ivision by zero", "nullif"
    ),
    "a remainder by zero": query(
        "select k, 1 % (v - 2) as x from input", "Remainder by zero", "try_mod"
    ),
    "a text that is no number": query(
        "select cast(k as int) as x from input", "The value 'a'", "try_cast"
    ),
    "a number that grows too large": query(
        "select v + 2147483647 as x from input", "overflow", "wider type"
    ),
    "a product that grows too large": query(
        "select cast(v as bigint) * 9223372036854775807 as x from input", "overflow", ""
    ),
    "a decimal with too many digits": query(
        "select cast(v * 1000 as decimal(4, 2)) as x from input", "cannot be represented", "wider"
    ),
    "an element beyond the end": query(
        "select array(v)[5] as x from input", "index 5", "try_element_at"
    ),
    "a text that is no JSON": query(
        "select from_json(k, 'a INT', map('mode', 'FAILFAST')).a as x from input", "alformed", ""
    ),
    "a time that cannot be parsed": query(
        "select to_timestamp(k, 'yyyy-MM-dd') as x from input", "'a'", "try_to_timestamp"
    ),
    "a day that there is not": query(
        "select make_date(2023, 2, 27 + v) as x from input", "February 29", "invalid dates"
    ),
    "an error that the query raises": query(
        "select cast(raise_error('no such town') as string) as x from input", "no such town",
        "correct the data or the query",
    ),
    "an assertion that does not hold": query(
        "select cast(assert_true(v < 2, 'too many') as string) as x, k from input", "too many", ""
    ),
    "a function that there is not": query(
        "select frobnicate(k) as x from input", "frobnicate", "",
        code="unknown-function",
    ),
    "a function of too many arguments": query(
        "select upper(k, v) as x from input", "upper", "takes 1", code="function-arguments"
    ),
    "a function of another type": query(
        "select year(v) as x from input", "year() cannot be of INT", "CAST(", code="wrong-type"
    ),
    "a comparison of what does not compare": query(
        "select k = array(v) as x from input", "the operator =", "CAST(", code="wrong-type"
    ),
    "a group that lacks a column": query(
        "select k, v, count(*) as n from input group by k", "v", "max(v)", code="ungrouped-column"
    ),
    "a column without a type": query(
        "select k, null as x from input", "x", "CAST(... AS STRING)", code="unstorable-type"
    ),
    "a column that is a span of time": query(
        "select k, interval '1' day as x from input", "the column 'x' cannot be stored",
        "CAST(... AS STRING)",
        code="unstorable-type",
    ),
}  # fmt: skip


def merge(
    strategy: str, data: str, says: str, fix: str = "", *, good: str | None = None, **more: Any
) -> Bad:
    """Return a file of changes that the strategy cannot take in."""
    columns = more.pop("columns", ("op INT", "at TIMESTAMP", "k STRING", "v INT"))
    kind, _, rest = strategy.partition(" ")
    read = flow("Csv", *columns, header="true")
    return Bad(
        code=more.pop("code", "merge-input"), says=says, fix=fix, read=read, good=good, data=data,
        merge=f"{{kind: {kind}, primaryKey: [k]{rest}}}", time="at", **more,
    )  # fmt: skip


PLAIN = ("at TIMESTAMP", "k STRING", "v INT")
T = "2024-01-01T00:00:00Z"
MERGES = {
    "a Snapshot with a key of null": merge(
        "Snapshot", f"at,k,v\n{T},,1\n", "k = null (row with at = 2024-01-01 00:00:00.000Z, v = 1)",
        "preprocess", columns=PLAIN,
    ),
    "a Snapshot with a key twice": merge(
        "Snapshot", f"at,k,v\n{T},a,1\n{T},a,2\n",
        "the key k = 'a' is in the source more than once, in data",
        "primaryKey", columns=PLAIN,
    ),
    "an UpsertStream with a key of null": merge(
        "UpsertStream", f"op,at,k,v\n0,{T},,1\n", "no value in its primary key", "preprocess"
    ),
    "an UpsertStream with an operation that there is not": merge(
        "UpsertStream", f"op,at,k,v\n7,{T},a,1\n", "7", ""
    ),
    "an UpsertStream with an operation of null": merge(
        "UpsertStream", f"op,at,k,v\n,{T},a,1\n", "", ""
    ),
    "a ChangelogStream with a key of null": merge(
        "ChangelogStream", f"op,at,k,v\n0,{T},,1\n", "no value in its primary key", "preprocess"
    ),
    "a ChangelogStream with an operation that there is not": merge(
        "ChangelogStream", f"op,at,k,v\n9,{T},a,1\n", "9", ""
    ),
    "a ChangelogStream with an operation of null": merge(
        "ChangelogStream", f"op,at,k,v\n,{T},a,1\n", "", ""
    ),
    "a ChangelogStream that lacks some event times": merge(
        "ChangelogStream", f"op,at,k,v\n0,{T},a,1\n1,,a,1\n", "event time", ""
    ),
    "a Ledger whose query gives no key": query(
        "select v from input", "k", "", code="unknown-column",
        merge="{kind: Ledger, primaryKey: [k]}",
    ),
    "a Snapshot whose query gives no key": query(
        "select v from input", "k", "", code="unknown-column",
        merge="{kind: Snapshot, primaryKey: [k]}",
    ),
    "a Snapshot that compares what there is not": query(
        "select k from input", "v", "", code="unknown-column",
        merge="{kind: Snapshot, primaryKey: [k], compareColumns: [v]}",
    ),
    "a Snapshot whose inferred column becomes a text": Bad(
        code="merge-input", says="v", fix="", read="{kind: NdJson}", good='{"k": "a", "v": 1}\n',
        data='{"k": "a", "v": "x"}\n', merge="{kind: Snapshot, primaryKey: [k]}",
    ),
    "a Ledger whose inferred key becomes a text": Bad(
        code="merge-input", says="k", fix="", read="{kind: NdJson}", good='{"k": 1, "v": 1}\n',
        data='{"k": "a", "v": 1}\n', merge="{kind: Ledger, primaryKey: [k]}",
    ),
    "a Snapshot that lacks an inferred column": Bad(
        code="schema-evolution", says="v", fix="", read="{kind: NdJson}",
        good='{"k": "a", "v": 1}\n', data='{"k": "b"}\n',
        merge="{kind: Snapshot, primaryKey: [k]}",
    ),
}  # fmt: skip
