"""Recomputation of a derivative in full, compared with the rows that its changelog leaves.

The rule of every step is that replaying the output gives one batch of the query over all rows of
the inputs that were read, windows that have not closed left out.  A replay of the steps cannot
tell whether it holds: a step that looks at the wrong keys does so again.  So here the query of the
last step runs once over everything, no key or count of earlier steps is made use of, and the
difference from the rows that stand has to be empty.

An engine elsewhere is not asked for that difference: it gets none of the current rows, gives all
rows of the query, and they are compared here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odfbuild.errors import OdfBuildError
from odfbuild.executors.data.python_values import python_rows
from odfbuild.executors.data.retractions import unequal_rows
from odfbuild.executors.data.seal import Sealed
from odfbuild.executors.engine.context import StepEngine
from odfbuild.executors.engine.protocol import (
    TransformInputFrame,
    TransformWork,
    query_input,
)
from odfbuild.executors.transform.continuity import came_of_one_query
from odfbuild.executors.transform.input_columns import accepted_schemas
from odfbuild.executors.transform.step import execute
from odfbuild.executors.verify.history import RecordedHistories
from odfbuild.executors.verify.replay import InputThen, RecordedStep, inputs_then, refusal
from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.chain.state import input_name
from odfbuild.odf.events import DatasetVocabulary, DataSlice, OffsetInterval, SetTransform
from odfbuild.odf.identity import Multihash
from odfbuild.odf.opaque import is_opaque
from odfbuild.planner.evolution.columns.inputs import input_schema
from odfbuild.sql.query import Query, QueryInput
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.workspace import Workspace
from odfbuild.values import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

_ADDED = (0, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recomputed:
    """The outcome of the query in full, as of a step.

    `findings` say what does not hold, none if all does; `surplus` is the first row that stands and
    that the query does not give, `missing` the first that it gives and that does not stand.
    `untried` says why it cannot be asked of this dataset, which is no finding.  `place` is as of
    a step.
    """

    block: Multihash
    sequence: int
    findings: tuple[str, ...] = ()
    surplus: Mapping[str, Any] | None = None
    missing: Mapping[str, Any] | None = None
    untried: str | None = None
    place: str | None = None


def _query(step: RecordedStep, past: RecordedHistories) -> Query | None:
    """Return the query of a step, whose inputs have no columns yet; None if it has none."""
    transform = step.before.transform
    if transform is None or is_opaque(transform.transform):
        return None
    inputs = []
    for each, recorded in zip(transform.inputs, step.event.query_inputs, strict=False):
        history = past.history(recorded.dataset_id)
        state = step.before if history is None else history.state(history.blocks[-1][0])
        inputs.append(QueryInput(input_name(each), None, state.vocab))
    return Query.of(transform.transform, inputs, step.before.vocab)


def _reason_not_to_try(
    query: Query | None, step: RecordedStep, past: RecordedHistories
) -> str | None:
    """Say why a dataset cannot be compared with its query in full, as of a step; None if it can."""
    refused = refusal(step, anyway=True)
    if refused is not None or query is None:
        return "there is no transform" if refused is None else refused.why
    history = past.history(step.dataset.id, step.block)
    if history is None:
        return "it has no blocks"
    events = [block.event for _, block in history.blocks if block.sequence_number <= step.sequence]
    if not came_of_one_query(events):
        several = sum(isinstance(each, SetTransform) for each in events) > 1
        return (
            "its rows were made by several queries, one after the other (on_query_change: "
            "forward): none of them gives all"
            if several
            else "its rows were made by another engine, whose steps depend on portions"
        )
    if query.facts.names_op:
        return "its query reads the event log (it names the operation column), not the current rows"
    return None


def recompute(
    step: RecordedStep,
    past: RecordedHistories,
    engine: StepEngine | None,
    workspace: Workspace,
    elsewhere: Callable[[TransformWork], StepEngine | None] = lambda _: None,
) -> Recomputed:
    """Compare what stands after a step with its query in full; what goes wrong is a finding.

    No engine is needed where that cannot be asked.  `elsewhere` gives the engine that the query is
    run by if not by this one.
    """
    try:
        query = _query(step, past)
        untried = _reason_not_to_try(query, step, past)
        if query is None or untried is not None or engine is None:
            return Recomputed(block=step.block, sequence=step.sequence, untried=untried)
        with workspace.staging() as staging:
            return _compare(query, step, past, engine, staging, elsewhere)
    except OdfBuildError as error:
        return _finding(step, f"its query cannot be computed in full: {error.what}")


def _compare(
    query: Query,
    step: RecordedStep,
    past: RecordedHistories,
    engine: StepEngine,
    staging: Path,
    elsewhere: Callable[[TransformWork], StepEngine | None],
) -> Recomputed:
    inputs = inputs_then(step, past)
    output = past.slices(step.dataset, step.after.head)
    for id, slices, of in (
        *((each.recorded.dataset_id, each.slices, f"its input {each.alias} is") for each in inputs),
        (step.dataset.id, output, "its own rows are"),
    ):
        damage = past.damage(id, slices)
        if damage is not None:
            return _finding(
                step, f"its query cannot be computed in full, as {of} damaged: {damage}"
            )
    work = _work(query, step, inputs, _files(step.dataset, output), staging)
    there = elsewhere(work)
    if there is not None:
        return _compare_here(step, work, there)
    sealed = execute(engine, step.after, work, step.system_time)
    if not sealed.records:
        return Recomputed(block=step.block, sequence=step.sequence)
    return _differing(step, sealed)


def _compare_here(step: RecordedStep, work: TransformWork, engine: StepEngine) -> Recomputed:
    """Compare all rows of the query with the current rows."""
    asked = replace(work, output=())
    sealed = execute(engine, step.after, asked, step.system_time)
    made = () if sealed.path is None else (sealed.path,)
    found = unequal_rows(work.output, made, sealed.schema, step.after.vocab)
    if not found.only_first and not found.only_second:
        return Recomputed(block=step.block, sequence=step.sequence)
    return _finding_of_rows(
        step,
        (found.only_first, found.only_second),
        _row_at(found.first, (*work.output, *made), step.after.vocab),
        _row_at(found.second, (*work.output, *made), step.after.vocab),
    )


def _row_at(
    offset: int | None, paths: Sequence[Path], vocab: DatasetVocabulary
) -> Mapping[str, Any] | None:
    """Return the row of an offset, without the columns of the event log."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    for path in paths if offset is not None else ():
        with pq.ParquetFile(path, pre_buffer=False) as file:
            for batch in file.iter_batches(10_000):
                at = pc.index(batch.column(vocab.offset_column), offset).as_py()
                if at >= 0:
                    return _shown(batch.slice(at, 1), vocab)
    return None


def _shown(row: "pa.RecordBatch", vocab: DatasetVocabulary) -> Mapping[str, Any]:
    system = (vocab.offset_column, vocab.operation_type_column, vocab.system_time_column)
    (found,) = python_rows(row)
    return {name: value for name, value in found.items() if name not in system}


def _work(
    query: Query,
    step: RecordedStep,
    inputs: tuple[InputThen, ...],
    output: tuple[Path, ...],
    staging: Path,
) -> TransformWork:
    """Return the correction of all that stands, which is none if all is as the query gives it."""
    sources = [(each.source.dataset, each.source.state) for each in inputs]
    known = accepted_schemas(query, step.dataset, step.before, sources)
    frames = []
    for each in inputs:
        schema = known.get(each.source.dataset.id) or input_schema(each.source.state)
        assert schema is not None  # noqa: S101 - a step is not bound to an input without one
        last = each.slices[-1].offset_interval.end if each.slices else None
        frames.append(
            TransformInputFrame(
                alias=each.alias,
                paths=_files(each.source.dataset, each.slices),
                interval=None if last is None else OffsetInterval(0, last),
                schema=schema,
                vocab=each.source.state.vocab,
            )
        )
    return TransformWork(
        inputs=tuple(frames),
        query=query.over(query_input(each.alias, each.schema, each.vocab) for each in frames),
        vocab=step.after.vocab,
        staging=staging,
        output=output,
        in_force=schema_in_force(step.after),
        watermark=step.after.watermark,
        watermark_before=step.after.watermark,
        in_full=True,
    )


def _files(dataset: Dataset, slices: Sequence[DataSlice]) -> tuple[Path, ...]:
    return tuple(dataset.data_path(each.physical_hash) for each in slices)


def _differing(step: RecordedStep, sealed: Sealed) -> Recomputed:
    import pyarrow.parquet as pq

    assert sealed.path is not None  # noqa: S101 - there are rows
    vocab = step.after.vocab
    counts, first = [0, 0], dict[bool, Mapping[str, Any]]()
    with pq.ParquetFile(sealed.path, pre_buffer=False) as file:
        for batch in file.iter_batches(10_000):
            operations = batch.column(vocab.operation_type_column).to_pylist()
            for at, op in enumerate(operations):
                added = op in _ADDED
                counts[added] += 1
                if added not in first:
                    first[added] = _shown(batch.slice(at, 1), vocab)
    surplus, missing = counts
    return _finding_of_rows(step, (surplus, missing), first.get(False), first.get(True))


def _finding_of_rows(
    step: RecordedStep,
    counts: tuple[int, int],
    surplus: Mapping[str, Any] | None,
    missing: Mapping[str, Any] | None,
) -> Recomputed:
    return Recomputed(
        block=step.block,
        sequence=step.sequence,
        findings=(
            f"of the current rows, {counts[0]:,} are not in the result of the query over "
            f"all inputs, and {counts[1]:,} of its rows are missing",
        ),
        surplus=surplus,
        missing=missing,
    )


def _finding(step: RecordedStep, what: str) -> Recomputed:
    return Recomputed(block=step.block, sequence=step.sequence, findings=(what,))
