"""Plans and problems as one JSON object a line, for programs that read as it comes.  Pure.

The events of a plan are `plan`, `dataset`, `step`, `note`, and at the end `summary`; the objects
in them are those of the plan's JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from odfbuild.errors import Diagnostic
from odfbuild.planner.saved import to_json
from odfbuild.planner.saved.forms import diagnostic_json

if TYPE_CHECKING:
    from odfbuild.planner.plan import Plan

_LISTS = {"datasets": "dataset", "steps": "step", "notes": "note"}
_LAST = ("gate", "summary", "plan_hash")


def render(plan: Plan) -> str:
    """Return the events of a plan."""
    return _lines(_events(to_json(plan)))


def render_diagnostics(found: Iterable[Diagnostic]) -> str:
    """Return one event a problem of a project."""
    return _lines({"event": "diagnostic", **diagnostic_json(each)} for each in found)


def _events(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    first = {k: v for k, v in document.items() if k not in _LISTS and k not in _LAST}
    yield {"event": "plan", **first}
    for key, event in _LISTS.items():
        for each in document[key]:
            yield {"event": event, **each}
    yield {"event": "summary", **{key: document[key] for key in _LAST}}


def _lines(events: Iterable[Mapping[str, Any]]) -> str:
    return "".join(f"{json.dumps(event, separators=(',', ':'))}\n" for event in events)
