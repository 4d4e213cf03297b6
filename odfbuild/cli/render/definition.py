"""Definitions of new datasets as text: what was guessed is said in comments.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from odfbuild.project.yaml.edit import block_lines, flow_text, scalar_text
from odfbuild.sql.text.parse import sql_name
from odfbuild.values import dataclass

_EVENT_TIME = "event_time"
_SYSTEM = {"offset": "offsetColumn", "op": "operationTypeColumn", "system_time": "systemTimeColumn"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """What is said of a root; `merge` and `time` are guesses, their reasons beside them."""

    name: str
    notes: Sequence[str]
    fetch: Mapping[str, Any]
    read: Mapping[str, Any]
    merge: Mapping[str, Any]
    merge_note: str
    columns: Sequence[str]
    time: str | None
    time_note: str = ""
    prepare: Sequence[Mapping[str, Any]] = field(default_factory=tuple)
    query: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InputColumns:
    """A dataset that is read: its name in the query and its columns; None if they are unknown."""

    dataset: str
    alias: str
    columns: Sequence[str] | None
    time: str


def root_text(root: Root) -> str:
    """Return the definition of a root."""
    lines = [f"# {note}" for note in root.notes]
    lines += ["kind: DatasetSnapshot", "version: 1", "content:"]
    lines += [f"  name: {scalar_text(root.name)}", "  kind: Root", "  metadata:"]
    lines += ["    - kind: SetPollingSource"]
    lines += _under("fetch", root.fetch)
    lines += _under("prepare", list(root.prepare)) if root.prepare else []
    lines += _under("read", root.read)
    if root.query is not None:
        lines += ["      preprocess:", "        kind: Sql", "        engine: spark"]
        lines += _query(root.query)
    lines += [f"      # {root.merge_note}", "      merge:"]
    lines += [f"        {key}: {flow_text(value)}" for key, value in root.merge.items()]
    lines += _vocabulary(root)
    return "\n".join(lines) + "\n"


def derivative_text(name: str, inputs: Sequence[InputColumns]) -> str:
    """Return the definition of a derivative of some inputs: the columns that all of them have."""
    query, notes = _selection(inputs)
    lines = [f"# {note}" for note in notes]
    lines += ["kind: DatasetSnapshot", "version: 1", "content:"]
    lines += [f"  name: {scalar_text(name)}", "  kind: Derivative", "  metadata:"]
    lines += ["    - kind: SetTransform", "      inputs:"]
    for each in inputs:
        lines.append(f"        - datasetRef: {scalar_text(each.dataset)}")
        lines.append(f"          alias: {scalar_text(each.alias)}")
    lines += ["      transform:", "        kind: Sql", "        engine: spark", *_query(query)]
    if inputs[0].time != _EVENT_TIME:
        lines += ["    - kind: SetVocab", f"      eventTimeColumn: {scalar_text(inputs[0].time)}"]
    return "\n".join(lines) + "\n"


def _under(key: str, value: Any) -> Iterator[str]:
    yield f"      {key}:"
    yield from (f"        {line}" for line in block_lines(value))


def _query(query: str) -> Iterator[str]:
    yield "        query: |"
    yield from (f"          {line}" if line else "" for line in query.rstrip("\n").split("\n"))


def _vocabulary(root: Root) -> Iterator[str]:
    """Yield names of system columns that differ from the usual ones."""
    clashing = {name: key for name, key in _SYSTEM.items() if name in root.columns}
    if root.time is None and _EVENT_TIME in root.columns:
        clashing[_EVENT_TIME] = "eventTimeColumn"
    named = {key: _free(name, root.columns) for name, key in clashing.items()}
    if root.time not in (None, _EVENT_TIME):
        named["eventTimeColumn"] = root.time or ""
    if not named:
        return
    if root.time_note:
        yield f"    # {root.time_note}"
    yield "    - kind: SetVocab"
    yield from (f"      {line}" for line in block_lines(named))


def _free(name: str, taken: Sequence[str]) -> str:
    """Return another name for a system column, one that no column has."""
    made = f"odf_{name}"
    while made in taken:
        made = f"odf_{made}"
    return made


def _selection(inputs: Sequence[InputColumns]) -> tuple[str, list[str]]:
    """Return a query of the columns that are known, and what is to be said of it."""
    known = [each for each in inputs if each.columns is not None]
    notes = [
        f"The columns of {each.dataset} are not known: odfbuild lock determines them with the "
        "engine."
        for each in inputs
        if each.columns is None
    ]
    if not known:
        return _select(inputs[0].alias, [inputs[0].time]), notes
    if len(known) < len(inputs):
        return _select(known[0].alias, known[0].columns or []), notes
    shared = _shared_names([each.columns or () for each in inputs])
    if len(inputs) == 1 or shared:
        return "union all\n".join(_select(each.alias, shared) for each in inputs), notes
    notes += [f"{each.alias}: {', '.join(each.columns or ())}" for each in inputs[1:]]
    notes.insert(0, "No column is in all inputs; the query reads the first input. The others have:")
    return _select(inputs[0].alias, inputs[0].columns or ()), notes


def _shared_names(columns: Sequence[Iterable[str]]) -> list[str]:
    rest = [set(each) for each in columns[1:]]
    return [name for name in columns[0] if all(name in each for each in rest)]


def _select(table: str, columns: Iterable[str]) -> str:
    named = ",\n".join(f"  {sql_name(each)}" for each in columns)
    return f"select\n{named}\nfrom {sql_name(table)}\n"
