"""Holds events of runs against the published schemas of OpenLineage, every facet by its own."""

import json
import re
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from jsonschema import Draft202012Validator, FormatChecker
from referencing import Registry, Resource

__all__ = ["check_event", "facets_of"]

SCHEMAS = Path(__file__).parents[1] / "vectors" / "openlineage"
_CORE = "https://openlineage.io/spec/2-0-2/OpenLineage.json"
_OLDER = "https://openlineage.io/spec/1-0-2/OpenLineage.json"
_URI = re.compile(
    r"[A-Za-z][A-Za-z0-9+.\-]*:(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|%[0-9A-F]{2})+"
)
_FORMATS = FormatChecker(formats=())


@_FORMATS.checks("date-time", raises=ValueError)
def _is_time(value: object) -> bool:
    return datetime.fromisoformat(str(value)).tzinfo is not None


@_FORMATS.checks("uuid", raises=ValueError)
def _is_uuid(value: object) -> bool:
    return str(UUID(str(value))) == value


@_FORMATS.checks("uri", raises=ValueError)
def _is_uri(value: object) -> bool:
    return bool(_URI.fullmatch(str(value)) and urlsplit(str(value)).scheme)


def check_event(event: dict[str, Any]) -> None:
    """Refuse an event that is not a run event, or has a facet that its schema does not know."""
    _validator(event["schemaURL"]).validate(event)
    assert event["schemaURL"] == f"{_CORE}#/$defs/RunEvent"
    for name, facet in facets_of(event):
        _validator(facet["_schemaURL"]).validate(facet)
        schema = json.loads((SCHEMAS / "facets" / _file(facet["_schemaURL"])).read_text("utf-8"))
        assert name in schema["properties"]


def facets_of(event: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield all facets of an event by name."""
    subjects = [event["run"], event["job"], *event["inputs"], *event["outputs"]]
    for each in subjects:
        for bag in ("facets", "inputFacets", "outputFacets"):
            yield from each.get(bag, {}).items()


def _file(url: str) -> str:
    return url.partition("#")[0].rpartition("/")[2]


@cache
def _validator(url: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": url}, registry=_registry(), format_checker=_FORMATS)


@cache
def _registry() -> Registry[Any]:
    paths = [SCHEMAS / "OpenLineage.json", *(SCHEMAS / "facets").glob("*.json")]
    schemas = [json.loads(path.read_text("utf-8")) for path in paths]
    for each in schemas:
        Draft202012Validator.check_schema(each)
    resources = [(each["$id"], Resource.from_contents(each)) for each in schemas]
    core = next(each for id_, each in resources if id_ == _CORE)
    return Registry[Any]().with_resources([*resources, (_OLDER, core)])
