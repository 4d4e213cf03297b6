"""What an engine says of the definitions of a project: queries and sources without rows."""

from collections.abc import Collection, Iterator, Sequence

from odfbuild import app
from odfbuild.cli.asking import ask_engine
from odfbuild.errors import Diagnostic, Level
from odfbuild.executors.resolve import ColumnsOf
from odfbuild.odf.datatypes import inner, type_name
from odfbuild.odf.events import DataSchema
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.project.column_lines import plain_schema
from odfbuild.project.lock_state import Definitions

__all__ = ["engine_findings"]


def engine_findings(
    project: app.Opened,
    declared: Sequence[Declared],
    wanted: Collection[DatasetAlias],
    broken: Collection[DatasetAlias],
) -> Iterator[Diagnostic]:
    """Yield what the engine refuses, and where it knows better than the texts.

    Datasets that are broken by their texts are left out, and so is what reads them.  Nothing is
    asked that was answered before.  Raises EngineFailedError.
    """
    states = project.workspace.states()
    names = {state.dataset: alias for alias, state in states.items()}
    with ask_engine(project) as asker:
        columns = ColumnsOf(Definitions(declared, names), asker, existing=states.get, broken=broken)
        for each in declared:
            if each.alias not in wanted:
                continue
            answer = columns(each.alias)
            yield from answer.found
            told = None if answer.schema is None else columns.told(each.alias)
            if told is not None and answer.schema is not None:
                yield from _differences(each, told, answer.schema)


def _differences(each: Declared, told: DataSchema, answered: DataSchema) -> Iterator[Diagnostic]:
    """Yield one warning if the texts, read without an engine, make other columns."""
    mine, real = _types(told), _types(answered)
    if mine == real:
        return
    parts = [
        f"{name} is {real.get(name, 'not there')}, not {mine.get(name, 'absent')}"
        for name in dict.fromkeys((*real, *mine))
        if mine.get(name) != real.get(name)
    ]
    yield Diagnostic(
        code="static-difference",
        what=f"the engine gives other columns than the text tells: {', '.join(parts)}",
        why="plan reads queries without an engine, and would foresee the wrong columns",
        fix="run odfbuild lock, so that plan knows the engine's answer",
        span=each.span(),
        level=Level.WARNING,
    )


def _types(schema: DataSchema) -> dict[str, str]:
    return {field.name: type_name(inner(field.type)) for field in plain_schema(schema).fields}
