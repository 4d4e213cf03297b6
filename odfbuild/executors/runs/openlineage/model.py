"""Events of OpenLineage (spec 2-0-2) for what runs did, and their JSON values.  Pure.

A step of an apply is a run of a job, the apply itself a run above it.  Each facet names the version
of its published schema by which it is written.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from odfbuild import __version__
from odfbuild.odf.events import DataField, DataType, DataTypeList, DataTypeStruct
from odfbuild.odf.identity import Multihash
from odfbuild.odf.schema.types import inner, type_name
from odfbuild.odf.timestamp import Timestamp
from odfbuild.values import dataclass

PRODUCER: Final = f"urn:odfbuild:{__version__}"
_SPEC: Final = "https://openlineage.io/spec"
_EVENT: Final = f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
_VERSIONS: Final = {
    "ColumnLineageDatasetFacet": "1-1-0",
    "DatasetVersionDatasetFacet": "1-0-0",
    "DatasourceDatasetFacet": "1-0-0",
    "ErrorMessageRunFacet": "1-0-1",
    "JobTypeJobFacet": "2-0-4",
    "OutputStatisticsOutputDatasetFacet": "1-0-0",
    "ParentRunFacet": "1-1-0",
    "SQLJobFacet": "1-0-1",
    "SchemaDatasetFacet": "1-2-0",
}

Json = dict[str, Any]


class EventType(StrEnum):
    """What happened to a run: it begins with START, and ends with one of the others."""

    START = "START"
    COMPLETE = "COMPLETE"
    FAIL = "FAIL"
    ABORT = "ABORT"


@dataclass(frozen=True, slots=True)
class NamespacedName:
    """What jobs and datasets go by: a name in a namespace."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job: `kind` is a word for what it does, `query` the SQL that it runs."""

    named: NamespacedName
    kind: str
    query: str | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """A run by its id, of a job."""

    id: UUID
    job: NamespacedName


@dataclass(frozen=True, slots=True)
class LineageColumn:
    """A column of a dataset."""

    dataset: NamespacedName
    column: str


@dataclass(frozen=True, slots=True)
class LineageField:
    """A column, the columns that its values come from, and those that decide on its rows."""

    name: str
    values: tuple[LineageColumn, ...] = ()
    rows: tuple[LineageColumn, ...] = ()


@dataclass(frozen=True, slots=True)
class WrittenAmount:
    """How much a run added to its output: records, and the bytes of their files."""

    records: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageDataset:
    """A dataset that a run reads or writes, and what is known of it; None is not known.

    `source` says where it is: the DID of a dataset, the place of a source.  `block` is its version,
    `columns` those of the data, `made` what they are made of, `written` what the run added.
    """

    named: NamespacedName
    source: str | None = None
    block: Multihash | None = None
    columns: tuple[DataField, ...] | None = None
    made: tuple[LineageField, ...] | None = None
    written: WrittenAmount | None = None


@dataclass(frozen=True, slots=True)
class Moment:
    """What happened to a run, and when; `error` says why it failed."""

    type: EventType
    at: Timestamp
    error: str | None = None


def run_event(
    moment: Moment,
    run: Run,
    job: Job,
    *,
    parent: Run | None = None,
    inputs: Sequence[LineageDataset] = (),
    outputs: Sequence[LineageDataset] = (),
) -> Json:
    """Return one event of a run of `job`; `parent` is the run that it is a part of."""
    return {
        "eventType": moment.type.value,
        "eventTime": str(moment.at),
        "run": {"runId": str(run.id), "facets": _run_facets(moment, parent)},
        "job": {**_name_json(job.named), "facets": _job_facets(job)},
        "inputs": [{**_name_json(each.named), "facets": _facets(each)} for each in inputs],
        "outputs": [_output(each) for each in outputs],
        "producer": PRODUCER,
        "schemaURL": _EVENT,
    }


def _name_json(of: NamespacedName) -> Json:
    return {"namespace": of.namespace, "name": of.name}


def _facet(kind: str, content: Mapping[str, Any]) -> Json:
    url = f"{_SPEC}/facets/{_VERSIONS[kind]}/{kind}.json#/$defs/{kind}"
    return {"_producer": PRODUCER, "_schemaURL": url, **content}


def _run_facets(moment: Moment, parent: Run | None) -> Json:
    found: Json = {}
    if parent is not None:
        above = {"run": {"runId": str(parent.id)}, "job": _name_json(parent.job)}
        found["parent"] = _facet("ParentRunFacet", above)
    if moment.error is not None:
        said = {"message": moment.error, "programmingLanguage": "Python"}
        found["errorMessage"] = _facet("ErrorMessageRunFacet", said)
    return found


def _job_facets(job: Job) -> Json:
    kind = {"processingType": "BATCH", "integration": "ODFBUILD", "jobType": job.kind}
    found = {"jobType": _facet("JobTypeJobFacet", kind)}
    if job.query is not None:
        found["sql"] = _facet("SQLJobFacet", {"query": job.query})
    return found


def _output(of: LineageDataset) -> Json:
    found = {**_name_json(of.named), "facets": _facets(of)}
    if of.written is not None:
        count = {"rowCount": of.written.records, "size": of.written.bytes}
        facet = _facet("OutputStatisticsOutputDatasetFacet", count)
        found["outputFacets"] = {"outputStatistics": facet}
    return found


def _facets(of: LineageDataset) -> Json:
    found: Json = {}
    if of.source is not None:
        place = {"name": of.named.namespace, "uri": of.source}
        found["dataSource"] = _facet("DatasourceDatasetFacet", place)
    if of.block is not None:
        block = {"datasetVersion": str(of.block)}
        found["version"] = _facet("DatasetVersionDatasetFacet", block)
    if of.columns is not None:
        found["schema"] = _facet("SchemaDatasetFacet", {"fields": _fields(of.columns)})
    if of.made is not None:
        fields = {each.name: {"inputFields": _sources(each)} for each in of.made}
        found["columnLineage"] = _facet("ColumnLineageDatasetFacet", {"fields": fields})
    return found


def _fields(columns: Sequence[DataField]) -> list[Json]:
    return [
        {
            "name": each.name,
            "type": type_name(each.type),
            "ordinal_position": at,
            **({"fields": _fields(members)} if (members := _members(each.type)) else {}),
        }
        for at, each in enumerate(columns, start=1)
    ]


def _members(of: DataType) -> tuple[DataField, ...]:
    """Return the members of a struct, or of the structs in a list."""
    kind = inner(of)
    if isinstance(kind, DataTypeList):
        return _members(kind.item_type)
    return kind.fields if isinstance(kind, DataTypeStruct) else ()


def _sources(column: LineageField) -> list[Json]:
    """Return what a column is made of, each column once, with all that it is used for."""
    used: dict[LineageColumn, list[Json]] = {}
    for refs, kind in ((column.values, "DIRECT"), (column.rows, "INDIRECT")):
        for each in refs:
            used.setdefault(each, []).append({"type": kind})
    return [
        {**_name_json(each.dataset), "field": each.column, "transformations": how}
        for each, how in used.items()
    ]
