"""Evolutions of composed queries for DataFusion: the gate says what running both versions shows.

The oracle runs the old and the new query over rows, in a plain context of DataFusion, and compares
the columns that come out.  Many more: `make test-long`.
"""

from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

import pyarrow as pa

from odfbuild.errors import OdfBuildError
from odfbuild.executors.data.slice_schema import slice_schema
from odfbuild.executors.engine.columns import data_schema
from odfbuild.odf.events import (
    DataSchema,
    DatasetKind,
    DatasetVocabulary,
    SetTransform,
    TransformInput,
)
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.schema.ddl import column_lines
from odfbuild.planner.declared import Declared
from odfbuild.planner.evolution.columns.compare import compare_schemas
from tests.planner.builders import declare
from tests.planner.evolution.assessing import Versions, root, source
from tests.planner.evolution.datafusion_versions import answer
from tests.rule.grammar.choices import Choices
from tests.rule.grammar.dialects import DATAFUSION
from tests.rule.grammar.oracles import Asked
from tests.rule.grammar.pairs import columns_of, drawn_pair
from tests.rule.grammar.plain_datafusion import plain_frame
from tests.rule.grammar.queries import Composed, composed
from tests.rule.grammar.tables import Table
from tests.support.effort import examples

_DRAWN = examples(40, 2_000)
_VOCAB = DatasetVocabulary()
_CODES = {
    "removed": "ODF201",
    "renamed": "ODF202",
    "retyped": "ODF203",
    "widened": "ODF204",
    "required": "ODF205",
    "optional": "ODF206",
    "reordered": "ODF207",
    "added": "ODF208",
}


def test_the_gate_says_what_running_both_versions_shows() -> None:
    outcomes = Counter(map(_outcome, range(_DRAWN)))
    assert outcomes["same"] > 0.5 * _DRAWN, outcomes


def _outcome(seed: int) -> str:
    pair = drawn_pair(seed, dialect=DATAFUSION)
    other = composed(Choices(f"evolved {seed}"), pair.tables, DATAFUSION)
    found = [_schema(each, pair.tables) for each in (pair.query, other)]
    if None in found:
        return "invalid"
    before, after = found
    assert before is not None
    assert after is not None
    versions = Versions(_project(pair.query, pair.tables), _project(other, pair.tables))
    hits = versions.hits("out", engine=answer)
    if {"ODF212", "ODF213", "ODF312"} & {each.code for each in hits}:
        return "refused"
    said = {(_KINDS[each.code], each.column) for each in hits if each.code in _KINDS}
    shown = {(each.kind, each.path or None) for each in compare_schemas(before, after)}
    if "renamed" in {kind for kind, _ in said | shown}:  # of which the schemas alone tell less
        said, shown = _as_removed(said), _as_removed(shown)
    assert said == shown, f"{pair.query}\n{other}\n{hits}"
    return "same"


_KINDS = {code: kind for kind, code in _CODES.items()} | {"ODF210": "retyped", "ODF209": "added"}
_Changes: TypeAlias = "set[tuple[str, str | None]]"


def _as_removed(changes: _Changes) -> _Changes:
    kept = {each for each in changes if each[0] not in {"renamed", "added", "reordered"}}
    return kept | {("removed", name) for kind, name in changes if kind == "renamed"}


def _project(query: Composed, tables: Sequence[Table]) -> tuple[Declared, ...]:
    roots = [
        root(name, source(*column_lines(schema))) for name, schema in columns_of(tables).items()
    ]
    inputs = tuple(TransformInput(DatasetAlias.parse(t.name), t.name) for t in tables)
    event = SetTransform(inputs=inputs, transform=query.transform)
    return (*roots, declare("out", DatasetKind.DERIVATIVE, (event,)))


def _schema(query: Composed, tables: Sequence[Table]) -> DataSchema | None:
    """Return the columns that come out, as they are stored; None if none do."""
    try:
        rows = plain_frame(query, Asked(tuple(tables), {t.name: () for t in tables}, None))
        schema = rows.to_arrow_table().schema
    except BaseException:  # a panic of Rust is no Exception
        return None
    schema = pa.schema([each.with_nullable(True) for each in schema])
    try:
        return data_schema(slice_schema(schema, _VOCAB, None), _VOCAB)
    except OdfBuildError:
        return None
