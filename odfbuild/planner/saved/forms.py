"""The JSON forms of the values in saved plans, where they differ from the names of fields.  Pure.

Schemas of a plan show DDL beside ODF's form, and texts of others go without credentials.
"""

from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import Any, get_args

from odfbuild.errors import Diagnostic, SourceSpan, bounded
from odfbuild.odf.events import DataField, DataSchema, MetadataEvent
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.manifest import from_mapping
from odfbuild.odf.manifest.writer import to_mapping
from odfbuild.odf.refs import DatasetAlias, parse_dataset_ref
from odfbuild.odf.schema.ddl import DdlError, to_ddl
from odfbuild.odf.schema.types import type_name
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.maintenance.compaction import Limits
from odfbuild.planner.maintenance.rewrite import MODES, REBUILD, Extent, Housekeeping
from odfbuild.planner.maintenance.undo import HeadReturn, Undo
from odfbuild.planner.plan import (
    Append,
    BaseHead,
    Ingest,
    Move,
    Plan,
    Planned,
    Pull,
    Step,
    Transform,
)
from odfbuild.planner.plan.changes import Assessment, ColumnChange, Hit, SchemaChange, Verdict
from odfbuild.planner.plan.policy import AS_USUAL, IngestOptions
from odfbuild.planner.plan.reasons import Reason
from odfbuild.planner.saved.codec import (
    FLAG,
    NUMBER,
    TEXT,
    Codec,
    Form,
    Member,
    UnfitValueError,
    blank,
    converted,
    nullable,
    pair,
    parsed,
    read_at,
    tagged,
    tuple_of,
)
from odfbuild.texts.redaction import redacted

_TARGET = {"target": "target.name", "workspace": "target.workspace"}
_NO_BASE = {"did": None, "base_head": None}
_NOT_JUDGED: dict[str, Any] = {
    "class": None,
    "rules": [],
    "schema": None,
    "affected": [],
    "query_class": None,
}


@cache
def published() -> Codec:
    """Return the forms of all values in saved plans."""
    found = Codec(
        {
            str: TEXT,
            int: NUMBER,
            bool: FLAG,
            DatasetAlias: parsed(DatasetAlias.parse),
            DatasetId: parsed(DatasetId.parse),
            DatasetAlias | DatasetId: parsed(parse_dataset_ref),
            Multihash: parsed(Multihash.parse),
            Timestamp: parsed(Timestamp.parse),
            MetadataEvent: converted(to_mapping, lambda value: from_mapping(MetadataEvent, value)),
            DataSchema: Form(_written_schema, _read_schema),
        }
    )
    _add_plan(found)
    _add_maintenance(found)
    return found


def diagnostic_json(found: Diagnostic) -> dict[str, Any]:
    """Return one finding as it stands among the notes of a plan."""
    written: dict[str, Any] = published().of(Diagnostic).write(found)
    return written


def ddl_lines(schema: DataSchema) -> list[str]:
    """Return one readable line a column; where DDL has no word for a type, the type's own name."""
    return [_ddl_line(field) for field in schema.fields]


def _add_plan(to: Codec) -> None:
    shown = nullable(Form(lambda text: bounded(redacted(text)), TEXT.read))
    cut = nullable(Form(bounded, TEXT.read))
    to.record(SourceSpan, excerpt=Member("excerpt", shown), instance=Member("instance", cut))
    quoted = Form(redacted, TEXT.read)
    texts = {name: Member(name, quoted) for name in ("what", "why", "fix")}
    order = {"code": "code", "level": "level", "span": "source"}
    to.record(Diagnostic, **order, **texts)
    to.record(Hit, change="class")
    to.record(ColumnChange, "column")
    to.record(SchemaChange, before="before", after="after", unknown="unknown", columns="diff")
    to.record(
        Verdict,
        "left_out",
        gate="name",
        errors=Member("errors", omitted=lambda verdict: not verdict.errors),
    )
    judged = to.record(Assessment, change="class", hits="rules", query="query_class")
    to.record(
        Planned,
        place="source",
        based_on=Member(None, blank(to.record(BaseHead, id="did", head="base_head"), _NO_BASE)),
        assessment=Member(None, blank(judged, _NOT_JUDGED)),
        foreseen="work.foreseen",
        origin=Member("origin", omitted=lambda planned: planned.origin is None),
    )
    to.record(IngestOptions, **{name: Member(name, omitted=_is_usual(name)) for name in _OPTIONS})
    works = {
        Append: to.record(Append, "events"),
        Move: to.record(Move),
        Ingest: to.record(
            Ingest,
            options=Member("options", omitted=lambda work: work.options == AS_USUAL),
            watermark=Member("watermark", omitted=lambda work: work.watermark is None),
        ),
        Transform: to.record(Transform),
        Pull: to.record(
            Pull,
            id="did",
            origin="origin",
            repository=Member("repository", omitted=lambda work: work.repository is None),
            head="new_head",
            blocks="blocks",
            records="records",
            bytes="bytes",
        ),
    }
    reasons = {of: to.record(of) for of in get_args(Reason)}
    to.record(
        Step,
        work=Member(None, tagged("work", "work", works, str.lower)),
        reasons=Member("reasons", tuple_of(tagged("kind", "reason", reasons))),
    )
    to.record(
        Plan,
        *("datasets", "unchanged", "refused"),  # beside it, or no part of a plan that is saved
        odf_version="odf_version",
        project="project.name",
        project_hash="project.hash",
        **_TARGET,
        against="against",
        git="git",
        selected="selected",
        steps="steps",
        notes="notes",
        verdict="gate",
        outside=Member("outside", omitted=lambda plan: not plan.outside),
        places=Member("places", omitted=lambda plan: not plan.places),
    )


def _add_maintenance(to: Codec) -> None:
    to.record(Limits, size="bytes")
    to.record(Extent, size="bytes")
    to.record(HeadReturn, alias="dataset", id="did", expected="base_head", to="new_head")
    to.record(Undo, run="run", project="project", **_TARGET)
    to.record(
        Housekeeping,
        work=Member("work", parsed(_work_of)),
        mode="mode",
        limits="limits",
        alias="dataset",
        id="did",
        kind="kind",
        project="project",
        **_TARGET,
        based_on="base_head",
        head="new_head",
        kept="kept_blocks",
        before="before",
        after="after",
        watermarks=Member("watermark", pair(("before", "after"), to.of(Timestamp | None))),
        dropped="dropped",
        stranded="stranded",
        reads=Member("reads", omitted=lambda step: step.work != REBUILD),
        definition=Member("definition", omitted=lambda step: step.definition is None),
        places=Member("places", omitted=lambda step: not step.places),
        outside=Member("outside", omitted=lambda step: not step.outside),
        versions=Member(
            "engine_version",
            pair(("before", "after"), to.of(str)),
            omitted=lambda step: step.versions is None,
        ),
    )


_OPTIONS = tuple(each.name for each in fields(IngestOptions))


def _is_usual(name: str) -> Callable[[IngestOptions], bool]:
    return lambda options: bool(getattr(options, name) == getattr(AS_USUAL, name))


def _work_of(text: str) -> str:
    if text not in MODES:
        raise UnfitValueError(f"there is no work {text!r}")
    return text


def _written_schema(schema: DataSchema) -> dict[str, Any]:
    return {"ddl": ddl_lines(schema), "odf": to_mapping(schema)}


def _read_schema(value: Any) -> DataSchema:
    form = converted(to_mapping, lambda item: from_mapping(DataSchema, item))
    schema: DataSchema = read_at(value, "odf", form)
    return schema


def _ddl_line(field: DataField) -> str:
    try:
        return to_ddl(DataSchema((field,)))[0]
    except DdlError:
        return f"{field.name} {type_name(field.type)}"
