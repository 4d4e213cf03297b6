"""Column policies: which columns of an input are read, by its schema and by `columns`.

`exact` refuses an input whose columns are not those declared; `by-name` reads those declared,
drops others and fills missing ones with null, and reports neither; `union` also adds new columns to
the dataset, permanently, with the types that their first values show.
"""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.ingest.read import read
from odfbuild.executors.ingest.read.bad_rows_report import reader_notes
from odfbuild.executors.ingest.read.notes import ReadNotes, SchemaDrift
from odfbuild.executors.ingest.read.problems import InvalidSourceError
from odfbuild.odf.events import DataField, DataSchema, DatasetVocabulary, ReadStep
from odfbuild.odf.schema.arrow import declared_schema, from_arrow
from odfbuild.odf.schema.types import optional
from odfbuild.planner.plan.policy import ColumnsPolicy, IngestOptions

_LISTED = 10


def read_columns(
    step: ReadStep,
    path: Path,
    *,
    staging: Path,
    name: str,
    options: IngestOptions,
    in_force: DataSchema | None,
    vocab: DatasetVocabulary,
    held: int,
) -> tuple[Frame | None, ReadNotes]:
    """Return the rows of an input in the columns of the policy, and the notes of the reader.

    `in_force` is the schema of the dataset, `held` is that of `ReadNotes`.  Raises what `read`
    raises.
    """
    policy = options.columns
    declared = declared_schema(step)
    if policy is None or declared is None:
        notes = reader_notes(options, name, staging, held)
        return read(step, path, staging=staging, name=name, notes=notes), notes
    if policy is ColumnsPolicy.UNION:
        step = with_columns(step, _earlier_fields(in_force, vocab, declared.names))
    frame, notes = _read(step, path, staging, name, options, held)
    if policy is ColumnsPolicy.EXACT:
        if notes.drift:
            raise _columns_differ(name, notes.drift)
        return frame, notes
    if policy is ColumnsPolicy.UNION and notes.drift.added:
        step = with_columns(step, _new_fields(notes.drift))
        frame, notes = _read(step, path, staging, name, options, held)
    notes.drift = replace(notes.drift, added=(), missing=())
    return frame, notes


def _read(
    step: ReadStep, path: Path, staging: Path, name: str, options: IngestOptions, held: int
) -> tuple[Frame | None, ReadNotes]:
    notes = reader_notes(options, name, staging, held)
    notes.by_name = options.columns is not ColumnsPolicy.EXACT
    return read(step, path, staging=staging, name=name, notes=notes), notes


def with_columns(step: ReadStep, more: tuple[DataField, ...]) -> ReadStep:
    """Return a read step that declares more columns."""
    if not more:
        return step
    declared = declared_schema(step)
    fields = () if declared is None else from_arrow(declared).fields
    return replace(step, ddl_schema=None, schema=DataSchema((*fields, *more)))


def _earlier_fields(
    schema: DataSchema | None, vocab: DatasetVocabulary, declared: list[str]
) -> tuple[DataField, ...]:
    """Return the undeclared columns that a dataset has from earlier inputs."""
    known = {
        *declared,
        *(vocab.offset_column, vocab.operation_type_column),
        *(vocab.system_time_column, vocab.event_time_column),
    }
    fields = () if schema is None else schema.fields
    return tuple(
        DataField(each.name, optional(each.type)) for each in fields if each.name not in known
    )


def _new_fields(drift: SchemaDrift) -> tuple[DataField, ...]:
    """Return the new columns of an input as columns of a dataset: all optional."""
    fields = from_arrow(pa.schema(drift.added)).fields
    return tuple(DataField(each.name, optional(each.type)) for each in fields)


def _columns_differ(name: str, drift: SchemaDrift) -> InvalidSourceError:
    there = [each.name for each in (*drift.added, *drift.grown)]
    there += [there for there, _ in drift.renamed]
    here = [*drift.missing, *(ours for _, ours in drift.renamed)]
    words = [
        f"it has {_shortened_list(there)}" if there else "",
        f"it lacks {_shortened_list(here)}" if here else "",
    ]
    return InvalidSourceError(
        what=f"the columns of {name} are not exactly those of the schema",
        why=f"{', and '.join(filter(None, words))}; the defaults of odfbuild.yaml say "
        "`columns: exact`",
        fix="correct the file, or `schema` in `read`, or set `columns: by-name` or `union`",
    )


def _shortened_list(names: list[str]) -> str:
    shown = ", ".join(names[:_LISTED])
    return shown if len(names) <= _LISTED else f"{shown} and {len(names) - _LISTED:,} more"
