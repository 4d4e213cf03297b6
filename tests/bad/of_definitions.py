"""Definitions that are refused before anything is asked for, and files that no schema can take in.

No JVM is needed: what is known without the engine is said without it.
"""

from typing import Any

from tests.bad.case import CSV, GOOD, Bad, flow, url

__all__ = ["DEFINITIONS", "SCHEMAS"]


def refused(code: str, says: str, fix: str = "", **more: Any) -> Bad:
    """Return a definition that is refused, over one that was fine."""
    return Bad(code=code, says=says, fix=fix, was=CSV, good=GOOD, **more)


def query(text: str, code: str, says: str, fix: str = "", **more: Any) -> Bad:
    quoted = text.replace("'", "''")
    preprocess = f"{{kind: Sql, engine: spark, query: '{quoted}'}}"
    return refused(code, says, fix, preprocess=preprocess, **more)


DEFINITIONS = {
    "a query that is no SQL": query("selec k from input", "syntax-error", "selec"),
    "a query that drops a table": query("drop table input", "syntax-error", "SELECT or WITH"),
    "a query of two statements": query(
        "select k from input; select v from input", "syntax-error", "more than one statement"
    ),
    "a column that there is not": query(
        "select kk from input", "unknown-column", "'kk'", "did you mean 'k'?"
    ),
    "a column in another case": query(
        "select K from input", "unknown-column", "'K'", "did you mean 'k'?"
    ),
    "a map from a query": query(
        "select map(k, v) as x from input", "unhashable-type", "the column 'x'", "to_json"
    ),
    "two columns of one name": query(
        "select k, v, 1 as n, 2 as n from input", "duplicate-column", "columns named 'n'", "AS"
    ),
    "a column of the system from a query": query(
        "select k, v as offset from input", "system-column", "'offset'", "AS"
    ),
    "an operation for Append": query("select k, v as op from input", "system-column", "'op'", "AS"),
    "an event time that is a text": query(
        "select k as at from input", "vocab-changed", "names of the system columns", "SetVocab",
        time="at",
    ),
    "a query of an unknown table": query("select k from imput", "unknown-input", "'imput'"),
    "a query that asks who runs it": query(
        "select k, current_user() as u from input", "depends-on-environment", ""
    ),
    "a query that calls Java": query(
        "select reflect('java.lang.System', 'exit', 1) as x from input", "calls-foreign-code", ""
    ),
    "a query that reads a file": query("select * from csv.`/etc/passwd`", "unknown-input", ""),
    "an engine that is not there": refused(
        "engine-not-installed", "'flink'", "spark reads TUMBLE",
        preprocess="{kind: Sql, engine: flink, query: select k from input}",
    ),
    "a key that is no column": refused(
        "unknown-column", "no column named 'kk'", "did you mean 'k'?",
        merge="{kind: Ledger, primaryKey: [kk]}",
    ),
    "a key of no columns": refused(
        "primary-key", "the primary key has no columns", "Append",
        merge="{kind: Snapshot, primaryKey: []}"
    ),
    "a comparison of no column": refused(
        "unknown-column", "'vv'", "did you mean 'v'?",
        merge="{kind: Snapshot, primaryKey: [k], compareColumns: [vv]}",
    ),
    "a stream of changes that says nothing of them": refused(
        "operation-column", "op", merge="{kind: ChangelogStream, primaryKey: [k]}"
    ),
    "an operation that is a text": refused(
        "operation-column", "op", read=flow("Csv", "op STRING", "k STRING", "v INT"),
        merge="{kind: ChangelogStream, primaryKey: [k]}",
    ),
    "a column of the system": refused(
        "system-column", "offset", read=flow("Csv", "k STRING", "v INT", "offset BIGINT")
    ),
    "a column twice": refused(
        "invalid-schema", "the name is declared twice", "rename one",
        read=flow("Csv", "k STRING", "v INT", "k STRING")
    ),
    "a type that there is not": refused(
        "invalid-schema", "NUMBR", read=flow("Csv", "k STRING", "v NUMBR")
    ),
    "an event time that is a number": refused("event-time-column", "v", time="v"),
    "an event time out of metadata that files lack": refused(
        "event-time-source", "FromMetadata",
        fetch="{kind: FilesGlob, path: 'data/*', eventTime: {kind: FromMetadata}}",
    ),
    "a pattern for the path of a url that is none": refused(
        "event-time-pattern", "(",
        fetch=url("http://127.0.0.1/data", ", eventTime: {kind: FromPath, pattern: '(x'}"),
    ),
    "a pattern that is none": refused(
        "event-time-pattern", "(",
        fetch="{kind: FilesGlob, path: 'data/*', eventTime: {kind: FromPath, pattern: '(x'}}",
    ),
    "a command of no words": refused("pipe-command", "", prepare="{kind: Pipe, command: []}"),
    "a column that becomes another type": refused(
        "schema-evolution", "v: INT -> STRING", "src.v2",
        read=flow("Csv", "k STRING", "v STRING", header="true"),
    ),
    "a column that is a map": refused(
        "unhashable-type", "'m' cannot be stored", "to_json()",
        read=flow("NdJson", "k STRING", "v INT", "m MAP<STRING, INT>"),
    ),
    "an option that there is not": refused(
        "unknown-field", "no field 'headr'", "did you mean 'header'?",
        read="{kind: Csv, headr: true}",
    ),
    "a reader that there is not": refused(
        "unknown-kind", "Cvs", "did you mean", read="{kind: Cvs}"
    ),
}  # fmt: skip


def lines(data: str, code: str, says: str, fix: str = "", *columns: str, **more: Any) -> Bad:
    read = flow("NdJson", *columns)
    return Bad(code=code, says=says, fix=fix, data=data, read=read, **more)


SCHEMAS = {
    "a number where texts were": lines(
        '{"k": 1}\n', "schema-evolution", "src: data/2: ", "`read.schema`", good='{"k": "a"}\n'
    ),
    "a file that lacks an inferred column": lines(
        '{"k": 1}\n',
        "schema-evolution",
        "column 'v' (Option<Int64>) is gone",
        "`read.schema`",
        good='{"k": 1, "v": 1}\n',
    ),
    "an object where a number was": lines(
        '{"k": {"a": 1}}\n', "schema-evolution", "k", "", good='{"k": 1}\n'
    ),
    "a value without a hash": lines(
        '{"v": [{"a": 1}]}\n',
        "unhashable-type",
        "the column 'v': data",
    ),
    "an event time that is a truth": lines(
        '{"at": true}\n', "bad-input-schema", "the event time column 'at'", "cast", time="at"
    ),
}
