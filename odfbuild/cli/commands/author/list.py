"""odfbuild list: the datasets that the project declares or the workspace has."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from odfbuild.app.selection import column_use
from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import Exclude, SafeCsv, Selection
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.arguments.selection import chosen_readable, selected_datasets
from odfbuild.cli.render.rows import check_safe_csv, write_rows
from odfbuild.cli.unreadable import is_damaged, load_readable, read_code
from odfbuild.odf.events import SetTransform
from odfbuild.odf.identity import DatasetId

if TYPE_CHECKING:
    from odfbuild.odf.chain.state import ChainState
    from odfbuild.odf.refs import DatasetAlias
    from odfbuild.planner.declared import Declared
    from odfbuild.planner.evolution.columns.use import ColumnUse

_Row = Mapping[str, Any]
_TABLE = ("name", "kind", "tags", "owner", "file", "inputs", "query")


def list_(
    given: ProjectArguments,
    selection: Selection = None,
    exclude: Exclude = None,
    workspace: Annotated[
        bool, typer.Option("-w", "--workspace", help="List the datasets of the workspace instead.")
    ] = False,
    output: Annotated[Literal["table", "json", "csv"], typer.Option("-o", "--output")] = "table",
    safe_csv: SafeCsv = False,
) -> int:
    """List the datasets of the project. With kind, inputs, query class, tags, owner and file."""
    show = list_workspace if workspace else list_datasets
    return show(given, selection or (), exclude or (), output, safe_csv=safe_csv)


def list_datasets(
    given: ProjectArguments,
    selectors: Sequence[str],
    exclude: Sequence[str],
    output: str,
    *,
    safe_csv: bool,
) -> int:
    """Print the declared datasets, in topological order."""
    check_safe_csv(output, safe_csv=safe_csv)
    project = open_given(given)
    loaded = load_readable(project)
    wanted = selected_datasets(project, loaded.declared, selectors, exclude)
    declared = loaded.sound
    names = project.workspace.names()
    by_id = {id: alias for alias, id in names.items()}
    use = column_use(project, declared)
    rows = [_row_of(each, by_id, use) for each in declared if each.alias in wanted]
    _write(rows, output, safe_csv=safe_csv)
    return read_code(loaded)


def list_workspace(
    given: ProjectArguments,
    selectors: Sequence[str],
    exclude: Sequence[str],
    output: str,
    *,
    safe_csv: bool,
) -> int:
    """Print the datasets of the workspace, by name."""
    check_safe_csv(output, safe_csv=safe_csv)
    project = open_given(given)
    wanted, loaded = chosen_readable(project, selectors, exclude)
    states = project.workspace.states()
    rows = [_existing(a, s) for a, s in sorted(states.items()) if a in wanted]
    _write(rows, output, safe_csv=safe_csv)
    damaged = is_damaged(project.workspace, wanted, all_of=not selectors)
    return exits.ERROR if damaged else read_code(loaded)


def _write(rows: Sequence[_Row], output: str, *, safe_csv: bool) -> None:
    """Write rows; what a table has no room for is in the other formats only."""
    if output == "table":
        rows = [_table_row(row) for row in rows]
    names = tuple(rows[0]) if rows else _TABLE
    values = [tuple(row.values()) for row in rows]
    if output == "csv":
        values = [tuple(map(_cell_text, row)) for row in values]
    write_rows((names, values), output, sys.stdout, safe_csv=safe_csv)


def _table_row(row: _Row) -> _Row:
    instance = row.get("instance")
    cells = {key: _cell_text(value) for key, value in row.items() if key not in _JSON_ONLY}
    if instance is not None:
        cells["file"] = f"{cells['file']} [{instance}]"
    return cells


_JSON_ONLY = frozenset({"instance", "package", "line", "clause", "id"})


def _cell_text(value: Any) -> Any:
    return (", ".join(value) or None) if isinstance(value, list) else value


def _row_of(each: Declared, by_id: Mapping[DatasetId, DatasetAlias], use: ColumnUse) -> _Row:
    found = use.query_class(each.alias)
    return {
        "name": str(each.alias),
        "kind": each.snapshot.kind.value.lower(),
        "tags": list(each.traits.tags),
        "owner": each.traits.owner,
        "file": each.file,
        "line": each.span(()).line,
        "instance": each.instance,
        "package": each.package,
        "inputs": list(_inputs(each, by_id)),
        "query": None if found is None else found.name,
        "clause": None if found is None else found.because,
    }


def _existing(alias: DatasetAlias, state: ChainState) -> _Row:
    return {
        "name": str(alias),
        "kind": state.kind.value.lower(),
        "id": str(state.dataset),
        "head": state.head.short(),
        "blocks": state.sequence + 1,
        "records": state.next_offset,
        "watermark": None if state.watermark is None else str(state.watermark),
    }


def _transform(each: Declared) -> SetTransform | None:
    found = (event for event in each.snapshot.metadata if isinstance(event, SetTransform))
    return next(found, None)


def _inputs(each: Declared, by_id: Mapping[DatasetId, DatasetAlias]) -> Iterator[str]:
    transform = _transform(each)
    for source in () if transform is None else transform.inputs:
        ref = source.dataset_ref
        yield str(by_id.get(ref, ref) if isinstance(ref, DatasetId) else ref)
