"""A recorded run as its page shows it: how it ended, what failed, and when each step ran.  Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from odfbuild.odf.timestamp import InvalidTimestampError, Timestamp
from odfbuild.state.runs import RunSummary
from odfbuild.values import dataclass

__all__ = ["MOST_STEPS", "WIDTH", "run_view"]

MOST_STEPS: Final = 2_000
WIDTH: Final = 1_000
"""The width of the drawing of a run, from its start to its end."""

_SIGNS: Final = {
    "running": ("▶", "info"),
    "done": ("✓", "good"),
    "partly": ("!", "warn"),
    "failed": ("✗", "bad"),
    "stopped": ("■", "warn"),
    "interrupted": ("!", "warn"),
    "skipped": ("\N{MINUS SIGN}", "warn"),
    "cut off": ("!", "warn"),
}
_UNKNOWN: Final = ("?", "none")
_LEAST: Final = 4  # of a bar, that it can be seen
_PROBLEM: Final = ("code", "what", "why", "fix")

Event = Mapping[str, Any]


@dataclass(slots=True)
class _TimedStep:
    """One step of a run: when it ran, in milliseconds, and what became of it."""

    dataset: str
    work: str = ""
    outcome: str = "cut off"
    began: int | None = None
    ended: int | None = None
    blocks: int = 0
    records: int = 0
    because: str | None = None


def run_view(run: RunSummary, events: Iterable[Event]) -> dict[str, Any]:
    """Return what the template of a run gets; texts are escaped there."""
    steps: dict[str, _TimedStep] = {}
    problems: list[Mapping[str, str]] = []
    begun, last = run.started.millis, run.started.millis
    for each in events:
        at = _millis(each)
        last = max(last, begun if at is None else at)
        problems += [_problem(each, one) for one in each.get("errors") or ()]
        id, dataset = each.get("step"), each.get("dataset")
        if isinstance(id, str) and isinstance(dataset, str):
            _hear(steps.setdefault(id, _TimedStep(dataset)), each, at)
    end = last if run.ended is None else max(last, run.ended.millis)
    shown = list(steps.values())
    sign, tone = _SIGNS.get(run.outcome.value, _UNKNOWN)
    return {
        "id": run.id,
        "outcome": run.outcome.value,
        "sign": sign,
        "tone": tone,
        "facts": [
            ("Command", run.command),
            ("Began", str(run.started)),
            ("Took", _seconds(end - begun)),
            ("Steps", f"{run.done:,} of {run.steps:,} done"),
            ("By", f"{run.user} at {run.host}, {run.version}"),
            *([] if run.follows is None else [("Follows", run.follows)]),
        ],
        "problems": problems,
        "steps": [_line(each, begun, end) for each in shown[:MOST_STEPS]],
        "more": max(0, len(shown) - MOST_STEPS),
        "width": WIDTH,
        "axis": ("0 s", _seconds(end - begun)),
    }


def _hear(step: _TimedStep, event: Event, at: int | None) -> None:
    match event.get("event"):
        case "dataset_started":
            step.work, step.began = str(event.get("work") or ""), at
        case "slice_committed":
            step.blocks += int(event.get("blocks") or 0)
            step.records += int(event.get("records") or 0)
        case "dataset_finished":
            step.outcome, step.ended = str(event.get("outcome")), at
            step.because = event.get("because")


def _line(step: _TimedStep, begun: int, end: int) -> dict[str, Any]:
    sign, tone = _SIGNS.get(step.outcome, _UNKNOWN)
    form: dict[str, Any] = {
        "dataset": step.dataset,
        "work": step.work,
        "outcome": step.outcome,
        "sign": sign,
        "tone": tone,
        "because": step.because,
        "blocks": f"{step.blocks:,}",
        "records": f"{step.records:,}",
        "took": "",
        "bar": None,
    }
    if step.began is not None:
        to = end if step.ended is None else step.ended
        form["took"] = _seconds(to - step.began)
        start = _place(step.began - begun, end - begun)
        form["bar"] = {
            "x": start,
            "width": max(_LEAST, _place(to - begun, end - begun) - start),
            "text": f"from {_seconds(step.began - begun)} to {_seconds(to - begun)}",
        }
    return form


def _place(millis: int, whole: int) -> int:
    return min(WIDTH - _LEAST, max(0, round(WIDTH * millis / max(1, whole))))


def _seconds(millis: int) -> str:
    seconds = max(0, millis) / 1_000
    if seconds < 10:
        return f"{seconds:.2f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60:,} h {minutes % 60} min"


def _millis(event: Event) -> int | None:
    try:
        return Timestamp.parse(str(event.get("time"))).millis
    except InvalidTimestampError:
        return None


def _problem(event: Event, error: Mapping[str, Any]) -> Mapping[str, str]:
    found = {name: str(error.get(name) or "") for name in _PROBLEM}
    return {**found, "dataset": str(event.get("dataset") or "")}
