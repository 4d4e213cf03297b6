"""odfbuild render: definitions as they are once their templates have run."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import Exclude, Selection
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.arguments.selection import selected_datasets
from odfbuild.cli.terminal.console import printable
from odfbuild.cli.unreadable import load_readable, read_code
from odfbuild.project import PROJECT_FILE
from odfbuild.project.config.quantities import lag_text
from odfbuild.project.template.rendered import LineOrigin
from odfbuild.project.template.standalone import Line, written_out

if TYPE_CHECKING:
    from odfbuild import app
    from odfbuild.planner.declared import Declared
    from odfbuild.project.config.defaults import Default
    from odfbuild.project.config.project_file import Config
    from odfbuild.project.load import Project


def render(
    given: ProjectArguments,
    selection: Selection = None,
    exclude: Exclude = None,
    trace: Annotated[
        bool, typer.Option("--trace", help="Show which line of which file each line comes from.")
    ] = False,
) -> int:
    """Print the YAML of datasets after templating. Included files are part of it.

    With `trace`, each line says which line of which file made it, and the traits that the project
    gives are listed with the defaults that they come from.
    """
    opened = open_given(given)
    project = load_readable(opened)
    for number, each in enumerate(
        _selected_definitions(opened, project, selection or (), exclude or ())
    ):
        divider = [] if number == 0 else ["---"]
        _write([*divider, *_definition(project, each, trace=trace)])
    return read_code(project)


def _selected_definitions(
    opened: app.Opened, project: Project, selectors: Sequence[str], exclude: Sequence[str]
) -> Iterator[Declared]:
    names = selected_datasets(opened, project.declared, selectors, exclude)
    return (each for each in project.declared if each.alias in names)


def _definition(project: Project, declared: Declared, *, trace: bool) -> Iterator[str]:
    instance = "" if declared.instance is None else f" [{declared.instance}]"
    yield printable(f"# {declared.file}{instance}")
    lines = written_out(declared, _namer(project.config, declared))
    if not trace:
        yield from (each.text for each in lines)
        return
    yield from _traits(project.defaults.get(declared.alias, ()))
    yield from _with_origins(lines)


def _with_origins(lines: Sequence[Line]) -> Iterator[str]:
    width = max((len(str(each.origin)) for each in lines), default=0)
    for each in lines:
        yield _visible(f"{each.origin!s:<{width}} | {each.text}".rstrip())


def _traits(defaults: Iterable[Default]) -> Iterator[str]:
    """Say what each default gives; of those that name one thing, the last one counts."""
    for each in defaults:
        given = [f"tags {', '.join(each.tags)}"] if each.tags else []
        given += [f"owner {each.owner}"] if each.owner is not None else []
        if each.on_query_change is not None:
            given.append(f"on_query_change {each.on_query_change.value}")
        given += (
            [f"repeated_keys {each.repeated_keys.value}"] if each.repeated_keys is not None else []
        )
        given += [f"bad_rows {each.bad_rows.value}"] if each.bad_rows is not None else []
        given += [f"max_bad_rows {each.max_bad_rows}"] if each.max_bad_rows is not None else []
        age, lag = each.watermark, each.watermark_lag
        given += [f"watermark now - {lag_text(age)}"] if age is not None else []
        given += [f"watermark_lag {lag_text(lag)}"] if lag is not None else []
        where = f"{each.span.file}:{each.span.line}"
        yield printable(f"# {where} {each.selector}: {'; '.join(given) or 'nothing'}")


def _namer(config: Config, declared: Declared) -> LineOrigin:
    """Return where a definition that does not give its name gets it from."""
    for each in config.generators:
        in_package = f"/{each.template.partition('/')[2]}"
        made = declared.file == each.template or declared.file.endswith(in_package)
        if made and each.dataset_name is not None:
            span = each.at("name")
            return LineOrigin(span.file, span.line, None)
    return LineOrigin(PROJECT_FILE, 1, None)


def _write(lines: Iterable[str]) -> None:
    """Write lines as they are, but for what would steer a terminal."""
    shown = _visible if sys.stdout.isatty() else str
    sys.stdout.write("".join(f"{shown(line)}\n" for line in lines))


def _visible(line: str) -> str:
    return "\t".join(map(printable, line.split("\t")))
