"""Checks of `odfbuild check`: of the texts of definitions, and of their queries by an engine."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from odfbuild.errors import Diagnostic, Level, SourceSpan
from odfbuild.executors.engine.analysis import Analyser
from odfbuild.executors.engine.columns import Asker, ColumnsOf
from odfbuild.executors.engine.protocol import engine_version
from odfbuild.executors.engine.registry import engine_of
from odfbuild.odf.events import DataSchema, SetTransform
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.schema.ddl import plain_schema
from odfbuild.odf.schema.types import inner, type_name
from odfbuild.planner.declared import Declared
from odfbuild.planner.diff import EventChange
from odfbuild.planner.queries import Examined, check_queries, question
from odfbuild.project.checks.queries import examined
from odfbuild.project.config.engines import DEFAULT_ENGINE
from odfbuild.project.config.project_file import Config
from odfbuild.project.lock.state import Definitions
from odfbuild.project.opened import Opened
from odfbuild.sql.analysis.facts import examine_alike
from odfbuild.sql.findings import Reason
from odfbuild.state.memory.engine_answers import Answers


def ask_engine(project: Opened) -> Asker:
    """Return what asks the project's engine and keeps its answers in the workspace's cache."""

    def start() -> Analyser:
        return engine_of(project)

    answers = project.workspace.root / "cache" / "answers.sqlite"
    return Asker(start, engine_version(DEFAULT_ENGINE) or "", Answers(answers))


def engine_findings(
    project: Opened,
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
            derived = None if answer.schema is None else columns.certain_schema(each.alias)
            if derived is not None and answer.schema is not None:
                yield from _differences(each, derived, answer.schema)


def _differences(each: Declared, derived: DataSchema, answered: DataSchema) -> Iterator[Diagnostic]:
    """Yield one warning if the texts, read without an engine, make other columns."""
    mine, real = _types(derived), _types(answered)
    if mine == real:
        return
    parts = [
        f"{name} is {real.get(name, 'not there')}, not {mine.get(name, 'absent')}"
        for name in dict.fromkeys((*real, *mine))
        if mine.get(name) != real.get(name)
    ]
    yield Diagnostic(
        code="static-difference",
        what=f"the engine returns other columns than the query text: {', '.join(parts)}",
        why="plan reads queries without an engine, and would expect the wrong columns",
        fix="run odfbuild lock, so that plan knows the engine's answer",
        span=each.span(),
        level=Level.WARNING,
    )


def _types(schema: DataSchema) -> dict[str, str]:
    return {field.name: type_name(inner(field.type)) for field in plain_schema(schema).fields}


def examine_all(declared: Sequence[Declared]) -> Examined:
    """Return what the texts of all transforms say; many are looked at on two processors."""
    facts = dict(examined(declared, {}))
    for each in declared:
        for event in each.snapshot.metadata:
            if isinstance(event, SetTransform) and question(event) not in facts:
                facts[question(event)] = examine_alike(*question(event))
    return facts


def query_findings(
    declared: Sequence[Declared], facts: Examined
) -> Mapping[DatasetAlias, tuple[Diagnostic, ...]]:
    """Return what is wrong with the queries of each dataset; those that are right are left out."""
    found: dict[DatasetAlias, tuple[Diagnostic, ...]] = {}
    for each in declared:
        changes = [EventChange(event, at) for at, event in enumerate(each.snapshot.metadata)]
        problems = tuple(check_queries(each, changes, (), facts))
        if problems:
            found[each.alias] = problems
    return found


def broken_datasets(
    found: Mapping[DatasetAlias, Sequence[Diagnostic]],
) -> frozenset[DatasetAlias]:
    """Return the datasets whose queries no engine could make anything of."""
    return frozenset(alias for alias, each in found.items() if each)


def unused_inputs(each: Declared, facts: Examined) -> Iterator[Diagnostic]:
    """Yield a warning for each declared input that the query does not read.

    A query that reads what is no input, or cannot be read, may have meant it.
    """
    for at, event in enumerate(each.snapshot.metadata):
        if not isinstance(event, SetTransform):
            continue
        read = facts[question(event)]
        if read.about(Reason.SYNTAX, Reason.UNKNOWN_INPUT):
            continue
        for number, alias in enumerate(question(event)[1]):
            if alias not in read.inputs:
                yield _unused_input(each, alias, ("metadata", at, "inputs", number))


def settings_findings(config: Config, declared: Collection[DatasetAlias]) -> Iterator[Diagnostic]:
    """Yield a warning for each entry of the project file that is about a dataset that is not there.

    An entry of `moved` may stay for those who have not applied it, its new name has to be there.
    """
    for accepted in config.accepted:
        if accepted.dataset not in declared:
            yield _idle("acceptance", str(accepted.dataset), accepted.span)
    for moved in config.moved:
        if moved.new not in declared:
            yield _idle("move", str(moved.new), moved.span)
        elif moved.old in declared:
            yield _warning(
                "moved-and-declared",
                f"'{moved.old}' is moved to '{moved.new}' and still declared",
                "its chain continues under the new name, and the old one would start over",
                "remove the definition, or the entry",
                moved.span,
            )


def _unused_input(each: Declared, alias: str, path: tuple[str | int, ...]) -> Diagnostic:
    return _warning(
        "unused-input",
        f"the query does not read its input '{alias}'",
        "each step waits for every input, and its watermark is the lowest of all",
        "remove the input, or read it",
        each.span(path),
    )


def _idle(kind: str, dataset: str, span: SourceSpan) -> Diagnostic:
    return _warning(
        f"idle-{kind}",
        f"no dataset '{dataset}' is declared",
        f"an {kind} about nothing" if kind == "acceptance" else "no dataset can be moved to it",
        "remove the entry, or correct the name",
        span,
    )


def _warning(code: str, what: str, why: str, fix: str, span: SourceSpan) -> Diagnostic:
    return Diagnostic(code=code, what=what, why=why, fix=fix, span=span, level=Level.WARNING)
