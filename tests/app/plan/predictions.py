"""What a plan says of the columns of datasets, and what an apply makes of them."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.agreement.outcome import run_inside
from tests.app.plan.drawn_projects import DrawnProject
from tests.support.process.inside import lay_out
from tests.support.projects import Done

__all__ = ["outcomes"]

_SYSTEM = {"offset", "op", "system_time"}
_NOTE = " /* not in DDL */"
_ROUNDS = 3
_ENDS = {0, 1, 3, 4}


def outcomes(seed: int, folder: Path) -> Iterator[str]:
    """Yield what came of each round of a project: `same`, `refused`, or what differs and how."""
    drawn = DrawnProject(seed)
    kept: dict[str, list[str]] = {}
    for number in range(_ROUNDS):
        if number:
            drawn.edit()
        lay_out(folder, drawn.files())
        found, kept = _round(folder, drawn, kept)
        yield found
        if found != "same":
            return


def _round(
    folder: Path, drawn: DrawnProject, before: Mapping[str, list[str]]
) -> tuple[str, dict[str, list[str]]]:
    planned = run_inside(folder, "plan", "-o", "json", "--gate", "off")
    if planned.code not in _ENDS or "Traceback" in planned.err:
        return f"plan ends: {_said(folder, drawn, planned)}", {}
    if planned.code != 0:
        applied = run_inside(folder, "apply", "--yes", "--gate", "off")
        if applied.code == 0:
            return f"apply passes: {_said(folder, drawn, planned, applied)}", {}
        return f"refused: {_errors(run_inside(folder, 'check'))}", {}
    applied = run_inside(folder, "apply", "--yes", "--gate", "off")
    if applied.code != 0:
        return f"apply fails: {_said(folder, drawn, planned, applied)}", {}
    said = dict(_predicted(json.loads(planned.out)))
    made = {name: _columns(folder, name) for name in (*drawn.columns, *drawn.queries)}
    for name, schema in said.items():
        now, was = made[name], before.get(name, [])
        left = [each for each in was if _name(each) not in {_name(e) for e in schema}]
        if sorted(now) != sorted([*schema, *left]):
            shown = f"{name}: predicted {schema}, left {left}, made {now}"
            return f"differs: {shown}\n{_said(folder, drawn, planned, applied)}", {}
    for name, was in before.items():
        if name not in said and made[name] != was:
            return f"unsaid: {name}: {was} -> {made[name]}", {}
    return "same", made


def _predicted(plan: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    for each in plan["datasets"]:
        schema = (each.get("schema") or {}).get("after")
        if schema is not None:
            yield each["name"], schema["ddl"]


def _columns(folder: Path, name: str) -> list[str]:
    done = run_inside(folder, "inspect schema", name, "-o", "ddl")
    lines = (
        [each.rstrip(",").removesuffix(_NOTE) for each in done.out.splitlines()]
        if done.code == 0
        else []
    )
    return [each for each in lines if _name(each) not in _SYSTEM]


def _name(column: str) -> str:
    return column.split(maxsplit=1)[0]


def _errors(*done: Done) -> str:
    lines = [line for each in done for line in (each.out + each.err).splitlines()]
    return "\n".join(line for line in lines if "error" in line or "FAILED" in line)


def _said(folder: Path, drawn: DrawnProject, *done: Done) -> str:
    queries = [f"{name}: {text}" for name, text in drawn.texts().items()]
    return "\n".join([*queries, _errors(*done), *(each.err[-700:] for each in done)])
