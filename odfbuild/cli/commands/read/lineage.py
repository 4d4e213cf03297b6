"""odfbuild lineage: where a dataset comes from, and what chains cannot know of that."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, Annotated, Literal
from uuid import UUID

import typer

from odfbuild import app
from odfbuild.app.inspection.moment import moment
from odfbuild.app.inspection.views import is_time
from odfbuild.cli import exits
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.arguments.options import SafeCsv
from odfbuild.cli.arguments.project import open_given
from odfbuild.cli.render.diagnostics import render_diagnostics
from odfbuild.cli.render.lineage import LineageView, dot, mermaid, record, relation_rows, tree
from odfbuild.cli.render.rows import check_safe_csv, write_rows
from odfbuild.cli.terminal.console import printable
from odfbuild.cli.unreadable import load_readable, read_code
from odfbuild.errors import Diagnostic, Level, StateError, UsageRefusedError
from odfbuild.executors.runs.lineage import catch_up, lineage_of, relations_at
from odfbuild.lineage.chains import is_recorded
from odfbuild.lineage.ids import node_id
from odfbuild.lineage.model import InconsistentLineageException, LineageRelation, LineageTree
from odfbuild.lineage.relations import LineageRelations
from odfbuild.lineage.store import KnownDataset, SqliteLineageResource
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.refs import DatasetAlias, InvalidNameError
from odfbuild.odf.timestamp import Timestamp
from odfbuild.project.opened import refuse_damaged
from odfbuild.state.chain.refs import find_block
from odfbuild.state.files.folder import make_workspace_folder

if TYPE_CHECKING:
    from odfbuild.project.load import Project

_AT = "--as-at takes a block of the dataset, or the time up to which blocks count"
_WRITERS: Mapping[str, Callable[[LineageView], str]] = {
    "tree": tree, "json": record, "dot": dot, "mermaid": mermaid,
}  # fmt: skip


Subject = Annotated[
    str, typer.Argument(metavar="NAME", help="A dataset: its name, a did:odf or a UUID.")
]
Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE", help="The dataset that it was made of: a name, a did:odf or a UUID."
    ),
]


class UnknownLineageError(StateError):
    """A dataset, or a relation between two, is not known."""

    code = "unknown-lineage"


class InconsistentLineageError(StateError):
    """Recorded lineage contradicts itself, chains, or what was recorded earlier."""

    code = "inconsistent-lineage"


class RecordedLineageError(StateError):
    """Lineage recorded in a chain cannot be removed."""

    code = "recorded-lineage"


def show(
    given: ProjectArguments,
    name: Subject,
    up: Annotated[bool, typer.Option("--up", help="Only show what it was made of.")] = False,
    down: Annotated[bool, typer.Option("--down", help="Only show what was made of it.")] = False,
    depth: Annotated[
        int,
        typer.Option("--depth", min=0, help="Maximum number of steps to follow; 0 is no limit."),
    ] = 0,
    as_at: Annotated[
        str | None,
        typer.Option(
            "--as-at",
            metavar="TIME|BLOCK",
            help="As recorded up to a time, or up to a block of the dataset.",
        ),
    ] = None,
    columns: Annotated[
        bool, typer.Option("--columns", help="Show the lineage of columns, from the definitions.")
    ] = False,
    output: Annotated[
        Literal["tree", "json", "dot", "mermaid", "csv", "html"], typer.Option("-o", "--output")
    ] = "tree",
    safe_csv: SafeCsv = False,
) -> int:
    """Show the lineage of a dataset. `odfbuild lineage NAME` is short for this."""
    if up == down:
        up = down = True
    if columns:
        from odfbuild.cli.commands.read.impact import show_columns

        return show_columns(
            given,
            name,
            up=up,
            down=down,
            depth=depth,
            as_at=as_at,
            output=output,
            safe_csv=safe_csv,
        )
    check_safe_csv(output, safe_csv=safe_csv)
    project = open_given(given)
    with _store(project) as store:
        root = _subject(project, name)
        _refuse_damaged(project, name)
        known = store.get_datasets()
        if as_at is not None:
            homes: dict[UUID, str] = {}
            with _in_memory(project, root, as_at, name) as then:
                trees = _trees(then, root, depth, up=up, down=down)
        else:
            homes = dict(store.get_all_homes())
            trees = _trees(store, root, depth, up=up, down=down)
    if not any(each.children for each in trees) and root not in known and root not in homes:
        raise _unknown(name) if as_at is None else _timeless(name)
    shown = LineageView(root, trees, known, homes)
    if output == "csv":
        write_rows(relation_rows(shown), "csv", sys.stdout, safe_csv=safe_csv)
    elif output == "html":
        text, loaded = _page(project, shown, as_at)
        sys.stdout.write(text)
        return read_code(loaded)
    else:
        sys.stdout.write(_WRITERS[output](shown))
    return exits.DONE


def _page(project: app.Opened, shown: LineageView, as_at: str | None) -> tuple[str, Project | None]:
    """Return relations as a page; with the columns that definitions tell, but not as of a time.

    The definitions are returned if they were read.
    """
    from odfbuild.app.selection import column_use
    from odfbuild.cli.page.document import document
    from odfbuild.cli.page.lineage import DatasetFacts, chain_facts, chain_graph, definition_facts

    states = {node_id(s.dataset): (a, s) for a, s in project.workspace.states().items()}
    shows = [(id_, *states[id_]) for id_ in shown.datasets() if id_ in states]
    if as_at is not None:
        kinds = {id_: DatasetFacts(state.kind) for id_, _, state in shows}
        return document(chain_graph(shown, kinds, f"as of the chains at {as_at}")), None
    loaded = load_readable(project)
    declared = loaded.sound
    use, defined = column_use(project, declared), {each.alias: each for each in declared}
    known_facts = {
        id_: definition_facts(defined[alias], use)
        if alias in defined
        else chain_facts(state, use, alias)
        for id_, alias, state in shows
    }
    about = "from chains and recorded relations; columns from the definitions"
    return document(chain_graph(shown, known_facts, about)), loaded


def add(
    given: ProjectArguments,
    name: Subject,
    source: Source,
    classifier: Annotated[
        str, typer.Option("--as", metavar="CLASSIFIER", help="The role in which it was used.")
    ] = "source",
    home: Annotated[
        str | None, typer.Option("--home", metavar="HOME", help="Where the source is kept.")
    ] = None,
) -> int:
    """Record that a dataset was made of another one, which may be anywhere."""
    _check_words(classifier, home)
    project = open_given(given)
    with _store(project, writes=True) as store:
        derived, origin = _subject(project, name), _subject(project, source)
        relation = LineageRelation(classifier, source_id=origin, derived_id=derived)
        try:
            with store.transaction():
                _keep_dids(store, name, source)
                store.merge(LineageRelations(relations=[relation]), validate_only=True)
                done = store.bulk_add([relation])
                if home is not None:
                    store.bulk_add_homes([(origin, home)])
        except InconsistentLineageException as error:
            raise _inconsistent(store, error) from error
    word = "is recorded" if done.completed else "was recorded already"
    sys.stdout.write(printable(f"{name} is made of {source} ({classifier}): {word}") + "\n")
    return exits.DONE


def _check_words(*words: str | None) -> None:
    if any(each is not None and not each.strip() for each in words):
        raise UsageRefusedError(
            what="a classifier or a home is empty",
            why="it names a relation or a place",
            fix="give a word, or omit it; home NAME --clear removes a home",
        )


def remove(
    given: ProjectArguments,
    name: Subject,
    source: Source,
) -> int:
    """Remove what was recorded with `add`. Relations from chains cannot be removed."""
    project = open_given(given)
    with _store(project, writes=True) as store:
        derived, origin = _subject(project, name), _subject(project, source)
        if is_recorded(store, derived, origin):
            raise RecordedLineageError(
                what=f"the chain of {name} records that it is made of {source}",
                why="only what was recorded with `odfbuild lineage add` can be removed",
                fix="change its query: from then on it is made of other datasets",
            )
        if not store.remove_relation(derived, origin):
            raise UnknownLineageError(
                what=f"it is not recorded that {name} is made of {source}",
                why="there is no such relation in this workspace",
                fix=f"odfbuild lineage {name} shows the relations",
            )
    sys.stdout.write(printable(f"{name} is made of {source}: removed") + "\n")
    return exits.DONE


def home(
    given: ProjectArguments,
    name: Subject,
    home: Annotated[
        str | None,
        typer.Argument(metavar="[HOME]", help="The new home. Default: show the present one."),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace a home that is already set.")
    ] = False,
    clear: Annotated[bool, typer.Option("--clear", help="Remove the home.")] = False,
) -> int:
    """Show or set the home of a dataset: the place, index or repository that keeps it."""
    if clear and home is not None:
        raise UsageRefusedError(
            what="--clear and a home exclude each other",
            why="it removes the present one",
            fix="omit one of them; --replace sets another one",
        )
    _check_words(home)
    project = open_given(given)
    with _store(project, writes=clear or home is not None) as store:
        dataset = _subject(project, name)
        before = store.get_homes(dataset).get(dataset)
        if clear:
            store.clear_home(dataset)
        elif home is not None:
            if before not in (None, home) and not replace:
                raise InconsistentLineageError(
                    what=f"{name} is kept in {before}, not in {home}",
                    why="a dataset has one home",
                    fix="add --replace to set the other one",
                )
            with store.transaction():
                _keep_dids(store, name)
                store.set_home(home, dataset, allow_updates=True)
        after = store.get_homes(dataset).get(dataset)
    sys.stdout.write(printable(f"{name}  {'no home' if after is None else after}") + "\n")
    return exits.DONE


def import_(
    given: ProjectArguments,
    files: Annotated[
        list[Path], typer.Argument(help="CSV, or documents of datasets (EO3) in YAML or JSON.")
    ],
    home: Annotated[
        str | None, typer.Option("--home", metavar="HOME", help="Where the sources are kept.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Where they differ, replace what was recorded.")
    ] = False,
) -> int:
    """Import relations and homes from files: all of them, or none."""
    project = open_given(given)
    with _store(project, writes=True) as store:
        before = _counts(store)
        try:
            with store.transaction():
                for path in files:
                    held, known = _read(store, path, home)
                    store.merge(held, allow_updates=replace)
                    unknown = [
                        each for each in known if node_id(each.did) not in store.get_datasets()
                    ]
                    store.put_datasets(*unknown)
        except InconsistentLineageException as error:
            raise _inconsistent(store, error) from error
        relations, homes = (now - then for now, then in zip(_counts(store), before, strict=True))
    sys.stdout.write(f"{relations:,} new relations, {homes:,} new homes\n")
    return exits.DONE


def _read(
    store: SqliteLineageResource, path: Path, home: str | None
) -> tuple[LineageRelations, tuple[KnownDataset, ...]]:
    from odfbuild.cli.render.lineage import read_file

    try:
        return read_file(path, home)
    except InconsistentLineageException as error:
        found = _inconsistent(store, error)
        raise InconsistentLineageError(
            what=f"{path} contradicts itself: {found.what}",
            why=found.why,
            fix="correct the file; nothing was imported",
        ) from error


def export(
    given: ProjectArguments,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="For eo3: the dataset.")
    ] = None,
    output: Annotated[Literal["csv", "eo3"], typer.Option("-o", "--output")] = "csv",
    safe_csv: SafeCsv = False,
) -> int:
    """Print all relations and homes as CSV, or the sources of one dataset as an EO3 document."""
    from odfbuild.cli.render.lineage import COLUMNS, csv_rows, eo3_document

    check_safe_csv(output, safe_csv=safe_csv)
    if (output == "eo3") == (name is None):
        raise UsageRefusedError(
            what="-o eo3 is for one dataset, -o csv for all of them",
            why="a document holds the lineage of the dataset that it describes",
            fix="odfbuild lineage export NAME -o eo3, or odfbuild lineage export -o csv",
        )
    project = open_given(given)
    with _store(project) as store:
        if name is not None:
            tree = store.get_source_tree(_subject(project, name), 1)
            sys.stdout.write(eo3_document(tree))
        else:
            homes = dict(store.get_all_homes())
            rows = COLUMNS, csv_rows(store.get_all_lineage(), homes)
            write_rows(rows, "csv", sys.stdout, safe_csv=safe_csv)
    return exits.DONE


def _counts(store: SqliteLineageResource) -> tuple[int, int]:
    return sum(1 for _ in store.get_all_lineage()), sum(1 for _ in store.get_all_homes())


@contextmanager
def _store(project: app.Opened, *, writes: bool = False) -> Iterator[SqliteLineageResource]:
    """Give the lineage of the workspace, caught up with its chains; say where that is not so."""
    workspace = project.workspace
    if writes and workspace.url is not None:
        raise StateError(
            what=f"nothing can be recorded by hand in {workspace.url}",
            why="such relations are stored on one machine, and others would not see them",
            fix="keep such relations in a file of the project; those of chains are shown "
            "everywhere",
        )
    if writes:
        make_workspace_folder(workspace.root, workspace.root)
    store = lineage_of(workspace)
    try:
        wrong = catch_up(workspace, store)
        if wrong:
            found = [_behind(store, each.dataset, each.why) for each in wrong]
            sys.stderr.write(render_diagnostics(found) + "\n")
        yield store
    finally:
        store.close()


def _behind(
    store: SqliteLineageResource, dataset: DatasetId, why: InconsistentLineageException
) -> Diagnostic:
    error = _inconsistent(store, why)
    known = store.get_datasets().get(node_id(dataset))
    return Diagnostic(
        code=error.code,
        what=f"lineage of {known.name or dataset if known else dataset} is not up to date:"
        f" {error.what}",
        why="its chain contradicts what was recorded by hand",
        fix="odfbuild lineage remove removes what was recorded",
        level=Level.WARNING,
    )


@contextmanager
def _in_memory(
    project: app.Opened, root: UUID, as_at: str, name: str
) -> Iterator[SqliteLineageResource]:
    """Give the relations in chains up to a time, or up to a block of the dataset."""
    now = Timestamp.from_millis(time_ns() // 1_000_000)
    exactly: dict[DatasetId, Multihash] = {}
    if is_time(as_at):
        when = moment(as_at, now, why=_AT)
    else:
        ids = {node_id(id): id for id in project.workspace.heads()}
        if root not in ids:
            raise _timeless(name)
        dataset = project.workspace.dataset(ids[root])
        block = find_block(dataset, as_at)
        exactly[dataset.id], when = block, dataset.block(block).system_time
    store = SqliteLineageResource()
    try:
        store.merge(relations_at(project.workspace, when, exactly))
        yield store
    except InconsistentLineageException as error:
        raise _inconsistent(store, error) from error
    finally:
        store.close()


def _trees(
    store: SqliteLineageResource, root: UUID, depth: int, *, up: bool, down: bool
) -> tuple[LineageTree, ...]:
    return (
        *([store.get_source_tree(root, depth)] if up else []),
        *([store.get_derived_tree(root, depth)] if down else []),
    )


def _subject(project: app.Opened, text: str) -> UUID:
    """Return the id of a dataset that is named; StateError when there is none of that name."""
    try:
        if text.startswith("did:"):
            return node_id(text)
        if (id := _id_by_name(project, text)) is not None:
            return node_id(id)
        return UUID(text)
    except ValueError:
        if text.startswith("did:"):
            raise _unknown(text) from None
    return node_id(app.find_dataset(project, text).id)


def _refuse_damaged(project: app.Opened, text: str) -> None:
    """Raise the damage of a dataset that is named: nothing is known of it for that alone."""
    with suppress(InvalidNameError):
        refuse_damaged(project, DatasetAlias.parse(text))


def _id_by_name(project: app.Opened, text: str) -> DatasetId | None:
    try:
        return project.workspace.names().get(DatasetAlias.parse(text))
    except InvalidNameError:
        return None


def _keep_dids(store: SqliteLineageResource, *texts: str) -> None:
    """Keep the DIDs that were given beside the ids that they become."""
    known = store.get_datasets()
    for text in texts:
        if text.startswith("did:") and node_id(text) not in known:
            store.put_datasets(KnownDataset(DatasetId.parse(text)))


def _unknown(name: str) -> UnknownLineageError:
    return UnknownLineageError(
        what=f"nothing is known of {name}",
        why="it is not a dataset of the workspace, and no relation or home names it",
        fix="check the id; odfbuild status lists the datasets of the workspace",
    )


def _timeless(name: str) -> UnknownLineageError:
    return UnknownLineageError(
        what=f"no chain names {name}, at any time",
        why="it is not a dataset of the workspace; relations recorded by hand have no time",
        fix="omit --as-at; odfbuild status lists the datasets of the workspace",
    )


def _inconsistent(
    store: SqliteLineageResource, error: InconsistentLineageException
) -> InconsistentLineageError:
    known = store.get_datasets()
    what = str(error)
    for id_, each in known.items():
        what = what.replace(str(id_), each.name or str(each.did))
    if error.cycle:
        why = "a dataset cannot be made of itself, directly or through others"
    else:
        why = "two datasets have one relation, and a dataset has one home"
    return InconsistentLineageError(
        what=what,
        why=why,
        fix="odfbuild lineage NAME shows what is recorded; lineage remove takes it back",
    )
