"""Words of older specifications and their successors, as tables (ODF 0.18, 0.32, 0.34.1)."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from odfbuild.odf.events import (
    MergeStrategySnapshot,
    ReadStepCsv,
    ReadStepNdJson,
    TemporalTable,
    TransformInput,
)
from odfbuild.odf.record import Record


class RemovedField(NamedTuple):
    """Why a field has no equal today, and what comes nearest."""

    why: str
    fix: str


SOURCES: Final[Mapping[str, tuple[str, str]]] = {
    "root": ("Root", "SetPollingSource"),
    "derivative": ("Derivative", "SetTransform"),
}
"""Kinds of `source` -> the kind of the dataset and the event (ODF 0.18, "DatasetSource")."""

RENAMED_KINDS: Final[Mapping[str, Mapping[str, str]]] = {"ReadStep": {"jsonlines": "NdJson"}}
"""By union: an old kind in lower case -> the one of today."""

RENAMED_FIELDS: Final[Mapping[type[Record], tuple[tuple[str, str], ...]]] = {
    TransformInput: (("id", "datasetRef"), ("name", "alias"), ("name", "datasetRef")),
    TemporalTable: (("id", "name"),),
}
"""Old name and new name; one is skipped when what it would lead to is there, or not needed yet."""

_OPERATIONS = RemovedField(
    "the operation type column now records changes, as numbers with both values of a change (ODF "
    '0.34.1, "MergeStrategy::Snapshot")',
    "read that column; operationTypeColumn in SetVocab renames it",
)
_TRIM = RemovedField("values are read as they are written", "use trim() in a preprocess query")
_WORDS = RemovedField("only nullValue is distinguished from other text", "use a preprocess query")
_LINES = RemovedField("one record is one line", "change the file in a prepare step")

LEFT_OUT: Final[Mapping[type[Record], Mapping[str, RemovedField]]] = {
    MergeStrategySnapshot: {
        "observationColumn": _OPERATIONS,
        "obsvColumn": _OPERATIONS,
        "obsvAdded": _OPERATIONS,
        "obsvChanged": _OPERATIONS,
        "obsvRemoved": _OPERATIONS,
    },
    ReadStepCsv: {
        "comment": RemovedField(
            "no line is skipped", "filter such lines in a prepare or preprocess step"
        ),
        "enforceSchema": RemovedField(
            "a declared schema is always applied, column by column",
            "check that the schema has the order of the columns",
        ),
        "ignoreLeadingWhiteSpace": _TRIM,
        "ignoreTrailingWhiteSpace": _TRIM,
        "emptyValue": _WORDS,
        "nanValue": _WORDS,
        "positiveInf": _WORDS,
        "negativeInf": _WORDS,
        "multiLine": RemovedField(
            "the specification no longer has it as an option",
            "check that records are read as expected",
        ),
    },
    ReadStepNdJson: {
        "multiLine": _LINES,
        "primitivesAsString": RemovedField(
            "types come from the schema alone", "declare the columns as STRING in the schema"
        ),
    },
}
"""By class: fields that the specification no longer has."""


def renamed(cls: type[Record], given: Mapping[str, object]) -> dict[str, str]:
    """Return the new names of the old fields that a mapping of a class has."""
    names: dict[str, str] = {}
    taken = set(given)
    for old, new in RENAMED_FIELDS.get(cls, ()):
        waits = new == "alias" and "datasetRef" not in taken
        if old in given and old not in names and new not in taken and not waits:
            names[old] = new
            taken.add(new)
    return names
