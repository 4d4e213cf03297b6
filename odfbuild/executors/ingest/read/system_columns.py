"""Columns of a source without a schema that have the names of system columns of the dataset.

They are renamed, as in the reference.  No value is lost, but a query for `offset` gets the number
of the record, so a warning is given when a dataset gets such a column.
"""

from collections.abc import Iterator, Sequence

from odfbuild.errors import Diagnostic, Level
from odfbuild.executors.engine.context import RENAMED_COLUMN
from odfbuild.odf.events import (
    DataSchema,
    DatasetVocabulary,
    MergeStrategy,
)
from odfbuild.odf.merge_strategies import reads_operations
from odfbuild.odf.schema.columns import own_names


def renamed_columns(
    names: Sequence[str],
    vocab: DatasetVocabulary,
    merge: MergeStrategy,
    in_force: DataSchema | None,
    name: str,
) -> Iterator[Diagnostic]:
    """Yield a warning if an input has renamed columns that are new to the dataset.

    `names` are the columns of the input, `name` is its own name in messages.
    """
    operations = reads_operations(merge)
    known = set() if in_force is None else {field.name for field in in_force.fields}
    found = own_names(names, vocab, operations=operations)
    new = {theirs: ours for theirs, ours in found.items() if ours not in known}
    if not new:
        return
    listed = ", ".join(f"{theirs!r} is stored as {ours!r}" for theirs, ours in new.items())
    first = next(iter(new))
    yield Diagnostic(
        code=RENAMED_COLUMN,
        what=f"{name} has columns with the names of system columns: {listed}",
        why='every record has system columns of these names (ODF 0.34.1, "Common Data Schema")',
        fix=f"to choose a name, write a `preprocess` (SELECT `{first}` AS ..., other columns), "
        "or give the system column another name in SetVocab; both before the first rows",
        span=None,
        level=Level.WARNING,
    )
