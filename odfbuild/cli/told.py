"""What inputs had besides their rows, for people and as JSON.  Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from odfbuild.cli.words import count
from odfbuild.errors import Diagnostic, Level, SourceSpan
from odfbuild.executors.report import Drifted, Told
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.plan_json import diagnostic_json

__all__ = ["told_json", "told_notes", "told_words"]

_LISTED = 10
_SHOWN = 5  # columns of each kind
_T = TypeVar("_T")

Input = tuple[str, Told]
"""The name of an input, and what is told of it."""


def told_words(told: Sequence[Told]) -> str:
    """Return how many bad rows there are, to go after other counts; nothing if there are none."""
    bad = sum(each.bad_rows for each in told)
    return f", {count(bad, 'bad row')} put aside" if bad else ""


def told_json(told: Told) -> dict[str, Any]:
    """Return what is told of one input."""
    drift = told.drifted
    return {
        "bad_rows": told.bad_rows,
        "bad_rows_file": told.bad_rows_file,
        "drift": None
        if drift is None
        else {
            "added": list(drift.added),
            "grown": list(drift.grown),
            "missing": list(drift.missing),
            "renamed": [list(pair) for pair in drift.renamed],
        },
        "checks": [diagnostic_json(each) for each in told.checks],
    }


def told_notes(
    alias: DatasetAlias,
    inputs: Sequence[Input],
    dataset: SourceSpan | None,
    schema: SourceSpan | None,
) -> Iterator[Diagnostic]:
    """Yield the warnings for one dataset, which is declared here, and its read schema there."""
    bad = [each for each in inputs if each[1].bad_rows]
    if bad:
        yield _bad_rows(alias, bad, dataset)
    drifted = [(name, told.drifted) for name, told in inputs if told.drifted is not None]
    if drifted:
        yield _drift(alias, drifted, schema or dataset)
    for _, told in inputs:
        yield from told.checks
        if told.absent is not None:
            yield replace(told.absent, what=f"{alias}: {told.absent.what}", span=dataset)


def _bad_rows(alias: DatasetAlias, bad: Sequence[Input], span: SourceSpan | None) -> Diagnostic:
    rows = sum(told.bad_rows for _, told in bad)
    listed = [
        f"{name}: {count(told.bad_rows, 'row')}, kept in {told.bad_rows_file}"
        for name, told in bad[:_LISTED]
    ]
    if len(bad) > _LISTED:
        listed.append(f"and {count(len(bad) - _LISTED, 'more file')} in the same folder")
    return Diagnostic(
        code="rows-put-aside",
        what="\n  ".join([f"{alias}: {count(rows, 'bad row')} put aside", *listed]),
        why="the defaults of odfbuild.yaml say `bad_rows: divert`; each row is there with its line "
        "and the reason",
        fix="correct the rows and add them by a push, or correct `read` in the definition",
        span=span,
        level=Level.WARNING,
    )


def _drift(
    alias: DatasetAlias, drifted: Sequence[tuple[str, Drifted]], span: SourceSpan | None
) -> Diagnostic:
    """Return one warning of all differences of the inputs of a dataset."""
    drift = Drifted(
        added=_each(line for _, found in drifted for line in found.added),
        grown=_each(line for _, found in drifted for line in found.grown),
        missing=_each(name for _, found in drifted for name in found.missing),
        renamed=_each(pair for _, found in drifted for pair in found.renamed),
    )
    lines = [f"left out: {line.removeprefix('- ')}" for line in drift.added[:_SHOWN]]
    lines += [f"left out members: {line.removeprefix('- ')}" for line in drift.grown[:_SHOWN]]
    lines += [f"null: {column}" for column in drift.missing[:_SHOWN]]
    lines += [f"read as {ours}: {there}" for there, ours in drift.renamed[:_SHOWN]]
    parts = (drift.added, drift.grown, drift.missing, drift.renamed)
    if more := sum(map(len, parts)) - len(lines):
        lines.append(f"and {count(more, 'more column')}")
    name, others = drifted[0][0], len(drifted) - 1
    files = f"{name} and {count(others, 'more file')} have" if others else f"{name} has"
    return Diagnostic(
        code="columns-differ",
        what="\n  ".join([f"{alias}: {files} other columns than the schema", *lines]),
        why="the rows are taken in as the schema has them; each difference is told once",
        fix="\n".join([*_ways(drift), *_meant(alias, drift)]),
        span=span,
        level=Level.WARNING,
    )


def _each(values: Iterable[_T]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys(values))


def _meant(alias: DatasetAlias, drift: Drifted) -> Iterator[str]:
    if not drift.renamed:  # by their names these would not bind at all
        more = ", or `union` to take in what is new" if drift.added else ""
        yield f"if that is meant: defaults: {{{alias}: {{columns: by-name}}}}{more}"


def _ways(drift: Drifted) -> Iterator[str]:
    if drift.added:
        yield "to take in what is new, add to `read.schema`:"
        yield from _first(drift.added)
    if drift.grown:
        yield "to take in the members, write in `read.schema`:"
        yield from _first(drift.grown)
    if drift.missing:
        yield f"if a name changed, correct it in `read.schema`: {', '.join(_first(drift.missing))}"
    if drift.renamed:
        pairs = ", ".join(_first([f"{ours} to {there}" for there, ours in drift.renamed]))
        yield f"if the names of the file are right, rename in `read.schema`: {pairs}"


def _first(lines: Sequence[str]) -> list[str]:
    shown = list(lines[:_SHOWN])
    return shown if len(shown) == len(lines) else [*shown, f"and {len(lines) - _SHOWN:,} more"]
