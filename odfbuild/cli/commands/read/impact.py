"""odfbuild impact and lineage --columns: what the definitions say of columns."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from odfbuild.app.selection import column_use
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import TextFormat
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.render.graph import Drawing, Node, dot, mermaid
from odfbuild.cli.render.rows import check_safe_csv, write_rows
from odfbuild.cli.terminal.console import printable, printable_json
from odfbuild.cli.unreadable import load_readable, read_code, refuse_wrong
from odfbuild.errors import PlanError, UsageRefusedError
from odfbuild.executors.runs.lineage import lineage_of
from odfbuild.lineage.ids import node_id
from odfbuild.odf.refs import DatasetAlias, InvalidNameError
from odfbuild.planner.evolution.columns.use import ALL, ColumnOrigins, ColumnUse
from odfbuild.planner.plan.changes import Affected, Usage
from odfbuild.planner.select.facts import selection_graph
from odfbuild.texts.suggest import did_you_mean
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild import app
    from odfbuild.planner.declared import Declared
    from odfbuild.project.load import Project

_Sources = Sequence[tuple[DatasetAlias, str]]


class UnknownSubjectError(PlanError):
    """There is no definition, or no column, of this name."""

    code = "unknown-subject"


@dataclass(frozen=True, slots=True)
class _ImpactColumns:
    """A dataset, its columns and what decides on its rows; None where that is unknown."""

    alias: DatasetAlias
    made: tuple[ColumnOrigins, ...] | None
    shaping: tuple[tuple[DatasetAlias, str], ...] | None


def show_columns(
    given: ProjectArguments,
    name: str,
    *,
    up: bool,
    down: bool,
    depth: int,
    as_at: str | None,
    output: str,
    safe_csv: bool,
) -> int:
    """Print, column by column, what a dataset is made of and what is made of it."""
    check_safe_csv(output, safe_csv=safe_csv)
    if as_at is not None:
        raise UsageRefusedError(
            what="--as-at does not go with --columns",
            why="columns are known from the definitions as they are now",
            fix="omit one of them",
        )
    project = open_given(given)
    loaded = load_readable(project)
    dataset, column = _subject(loaded, name)
    declared = loaded.sound
    if column is not None:
        raise _unknown(name, declared)
    graph = selection_graph(declared, project.workspace.names())
    neighbours = _neighbourhood(dataset, graph.inputs, depth, up=up, down=down)
    use = column_use(project, declared)
    shown = [each for each in declared if each.alias in neighbours]
    if output == "html":
        from odfbuild.cli.page.document import document
        from odfbuild.cli.page.lineage import definition_graph

        chains, readers = project.workspace.states(), _readers(graph.inputs)
        page = definition_graph(dataset, shown, use, chains, neighbours, readers)
        sys.stdout.write(document(page))
        return read_code(loaded)
    found = [_ImpactColumns(d.alias, use.made(d.alias), use.shaping(d.alias)) for d in shown]
    if output in ("dot", "mermaid"):
        nodes = tuple(_node(each, graph.inputs[each.alias], neighbours) for each in shown)
        drawing = Drawing(project.config.name, nodes, {each.alias: each.made for each in found})
        sys.stdout.write((dot if output == "dot" else mermaid)(drawing))
    elif output == "json":
        _print_json([_record(each) for each in found])
    elif output == "csv":
        columns = ("dataset", "column", "source_dataset", "source_column", "use")
        rows = columns, [row for each in found for row in _rows(each)]
        write_rows(rows, "csv", sys.stdout, safe_csv=safe_csv)
    else:
        sys.stdout.writelines(f"{printable(line)}\n" for each in found for line in _lines(each))
    return read_code(loaded)


def impact(
    given: ProjectArguments,
    name: Annotated[
        str,
        typer.Argument(metavar="NAME[.COLUMN]", help="The dataset or column that would change."),
    ],
    output: TextFormat = "text",
) -> int:
    """Show what a change of a dataset or a column would affect."""
    project = open_given(given)
    loaded = load_readable(project)
    dataset, column = _subject(loaded, name, _remote_inputs(project, loaded))
    declared = loaded.sound
    use = column_use(project, declared)
    if column is not None:
        column = _column_spelling(use, dataset, column, name)
    found = use.affected(dataset, ALL if column is None else frozenset({column}))
    noted = _datasets_elsewhere(project, dataset, found) if column is None else []
    if output == "json":
        _print_json(
            {
                "dataset": str(dataset),
                "column": column,
                "affected": [_affected_record(each) for each in found],
                "noted": noted,
            }
        )
    else:
        lines = _impact_lines(dataset, column, found, noted)
        sys.stdout.writelines(f"{printable(line)}\n" for line in lines)
    return read_code(loaded)


def _remote_inputs(project: app.Opened, loaded: Project) -> Collection[DatasetAlias]:
    """Return the names of the inputs that are datasets of repositories."""
    inputs = [given for each in loaded.declared for given in each.remote]
    if not inputs:
        return ()
    from odfbuild.planner.plan.remote_inputs import names_in_workspace

    return names_in_workspace(inputs, project.workspace.names()).values()


def _subject(
    loaded: Project, text: str, more: Collection[DatasetAlias] = ()
) -> tuple[DatasetAlias, str | None]:
    """Return the dataset that is meant, and the column if one is; `more` are other known ones."""
    declared = loaded.declared
    known = {each: each for each in (*more, *(each.alias for each in declared))}
    parts = text.split(".")
    for end in range(len(parts), 0, -1):
        try:
            alias = DatasetAlias.parse(".".join(parts[:end]))
        except InvalidNameError:
            continue
        refuse_wrong(loaded, alias)
        if alias in known:
            return known[alias], ".".join(parts[end:]) or None
    raise _unknown(text, declared)


def _column_spelling(use: ColumnUse, dataset: DatasetAlias, column: str, text: str) -> str:
    """Return a column as its dataset spells it, members left out; any where they are not known."""
    top = column.partition(".")[0]
    made = use.made(dataset)
    if made is None:
        return top
    for each in made:
        if each.name.lower() == top.lower():
            return each.name
    raise UnknownSubjectError(
        what=f"'{text}': {dataset} has no column '{top}'",
        why="its columns are " + ", ".join(each.name for each in made),
        fix=did_you_mean(top, [each.name for each in made]) or "give one of them",
    )


def _neighbourhood(
    start: DatasetAlias,
    inputs: Mapping[DatasetAlias, Collection[DatasetAlias]],
    depth: int,
    *,
    up: bool,
    down: bool,
) -> set[DatasetAlias]:
    """Return a dataset and what lies at most so many steps before and after it (0: any)."""
    readers = _readers(inputs)
    found = {start}
    for links in [inputs] * up + [readers] * down:
        edge, steps = {start}, 0
        met = {start}
        while edge and (depth == 0 or steps < depth):
            edge = {far for each in edge for far in links.get(each, ())} - met
            met |= edge
            steps += 1
        found |= met
    return found


def _readers(
    inputs: Mapping[DatasetAlias, Collection[DatasetAlias]],
) -> dict[DatasetAlias, list[DatasetAlias]]:
    readers: dict[DatasetAlias, list[DatasetAlias]] = {}
    for alias, of in inputs.items():
        for each in of:
            readers.setdefault(each, []).append(alias)
    return readers


def _node(each: Declared, inputs: Collection[DatasetAlias], neighbours: set[DatasetAlias]) -> Node:
    inside = tuple(one for one in inputs if one in neighbours)
    outside = tuple(one for one in inputs if one not in neighbours)
    return Node(each.alias, each.snapshot.kind, inside, outside)


def _lines(each: _ImpactColumns) -> Iterator[str]:
    yield str(each.alias)
    if each.made is None:
        yield "   its columns cannot be determined: they may come from all of its inputs"
        return
    for column in each.made:
        yield f"   {column.name}" + (
            f" <- {_source_names(column.sources)}" if column.sources else ""
        )
    if each.shaping is None:
        yield "   what determines its rows is not known"
    elif each.shaping:
        yield f"   rows by {_source_names(each.shaping)}"


def _source_names(sources: _Sources) -> str:
    return ", ".join(f"{dataset}.{column}" for dataset, column in sources)


def _record(each: _ImpactColumns) -> dict[str, Any]:
    columns = None
    if each.made is not None:
        columns = [{"name": c.name, "sources": _refs(c.sources)} for c in each.made]
    rows = None if each.shaping is None else _refs(each.shaping)
    return {"dataset": str(each.alias), "columns": columns, "rows": rows}


def _refs(sources: _Sources) -> list[dict[str, str]]:
    return [{"dataset": str(dataset), "column": column} for dataset, column in sources]


def _rows(each: _ImpactColumns) -> Iterator[tuple[str | None, ...]]:
    for column in each.made or ():
        for dataset, name in column.sources:
            yield str(each.alias), column.name, str(dataset), name, "value"
    for dataset, name in each.shaping or ():
        yield str(each.alias), None, str(dataset), name, "rows"


def _datasets_elsewhere(
    project: app.Opened, dataset: DatasetAlias, found: Sequence[Affected]
) -> list[dict[str, Any]]:
    """Return the datasets elsewhere that were noted to be made of one, or of what it reaches."""
    ids = project.workspace.names()
    inside = {node_id(id) for id in ids.values()}
    noted: dict[str, dict[str, Any]] = {}
    store = lineage_of(project.workspace)
    try:
        homes, known = dict(store.get_all_homes()), store.get_datasets()
        for each in (dataset, *(one.dataset for one in found)):
            if each in ids:
                below = store.get_derived_tree(ids[each]).child_datasets() - inside
                for id_ in below:
                    name = str(known[id_].name or known[id_].did) if id_ in known else None
                    noted[str(id_)] = {"id": str(id_), "name": name, "home": homes.get(id_)}
    finally:
        store.close()
    return [noted[each] for each in sorted(noted)]


def _affected_record(each: Affected) -> dict[str, Any]:
    return {
        "dataset": str(each.dataset),
        "columns": list(each.columns),
        "usage": [use.value for use in each.usage],
        "unknown": each.unknown,
    }


def _impact_lines(
    dataset: DatasetAlias,
    column: str | None,
    found: Sequence[Affected],
    noted: Sequence[Mapping[str, Any]],
) -> Iterator[str]:
    subject = f"{dataset}.{column}" if column else str(dataset)
    count = len(found) + len(noted)
    if not count:
        yield f"A change of {subject} affects no other dataset."
        return
    yield f"A change of {subject} affects {count:,} {'dataset' if count == 1 else 'datasets'}:"
    for each in found:
        yield f"  {each.dataset}  {_how(each)}"
    for other in noted:
        home = "" if other["home"] is None else f" [{other['home']}]"
        yield f"  {other['name'] or other['id']}{home}  recorded by hand"


def _how(each: Affected) -> str:
    if each.unknown:
        return "may be: its query is not understood"
    columns = ", ".join(each.columns)
    if Usage.SHAPE in each.usage:
        return f"its rows, so all columns: {columns}" if columns else "its rows"
    return f"columns: {columns}"


def _print_json(found: object) -> None:
    text = json.dumps(found, ensure_ascii=False, indent=2)
    sys.stdout.write(printable_json(text) + "\n")


def _unknown(text: str, declared: Sequence[Declared]) -> UnknownSubjectError:
    return UnknownSubjectError(
        what=f"no dataset named '{text}' is defined",
        why="columns are known from definitions; impact takes NAME or NAME.COLUMN",
        fix=did_you_mean(text, [str(each.alias) for each in declared])
        or "odfbuild list lists the datasets",
    )
