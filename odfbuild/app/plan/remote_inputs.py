"""Inputs of a project's definitions that are datasets of repositories, for its plan."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from odfbuild.errors import Diagnostic, Level, OdfBuildError, ProjectErrors
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.refs import DatasetAlias, parse_remote_ref
from odfbuild.planner.declared import Declared
from odfbuild.planner.plan import Plan, Pull
from odfbuild.planner.plan.at_rest import looked_at
from odfbuild.planner.plan.remote import Looking, RemoteInput, RemoteStates, reference_key
from odfbuild.project.load import Project
from odfbuild.project.lock import LOCK_FILE, Lock, LockedInput, read_lock, write_lock
from odfbuild.project.opened import Opened

if TYPE_CHECKING:
    from odfbuild.repositories.inputs import LookedUp


def look_up_inputs(
    project: Opened,
    loaded: Project,
    current: Mapping[DatasetAlias, ChainState],
    how: Looking,
    *,
    among: Iterable[RemoteInput] | None = None,
    anew: Collection[str] = (),
) -> "LookedUp":
    """Return what is known of inputs, after a look at repositories if that is asked for.

    `among` are some of them, by default all; those `anew` may be other datasets than they were.
    """
    from odfbuild.app.sharing.judging import RepositoryJudge
    from odfbuild.repositories.inputs import look_up

    judge = partial(RepositoryJudge, brings=False)
    if among is None:
        among = [each for declared in loaded.sound for each in declared.remote]
    return look_up(project, among, current, how, judge, anew=anew)


def pull_input(project: Opened, work: Pull, alias: DatasetAlias) -> None:
    """Bring an input up to the head that a plan names, and remember where it came from.

    A source that came along is not used until the user says so.  Raises what `transfer.pull` does.
    """
    from odfbuild.app.sharing.judging import RepositoryJudge
    from odfbuild.app.sharing.pulling import bar_source
    from odfbuild.repositories.inputs import HeadView, find_input
    from odfbuild.repositories.transfer import pull
    from odfbuild.state.disabled import mark_of
    from odfbuild.state.memory.origins import note_pull

    assert work.head is not None  # noqa: S101 - the step refuses a plan without one
    workspace = project.workspace
    found = find_input(project, parse_remote_ref(work.origin), work.repository)
    known = workspace.open(work.id)
    state = None if known is None else known.state()
    before = None if state is None or state.polling is None else mark_of(state.polling)
    with found.reading() as source:
        pull(
            workspace,
            HeadView(source, work.head),
            alias,
            judge=RepositoryJudge(found.settings, is_pinned=True),
            expected=work.id,
            check=lambda arrival, _: bar_source(project, arrival, before),
        )
    note_pull(workspace, work.id, work.origin)


def barred_readers(loaded: Project, looked: "LookedUp") -> Mapping[DatasetAlias, OdfBuildError]:
    """Return the definitions that cannot be planned for an input, and why."""
    if not looked.errors:
        return {}
    found = {each.alias: tuple(_problems(each, looked)) for each in loaded.declared}
    return {alias: ProjectErrors(each) for alias, each in found.items() if each}


def pin_inputs(project: Opened, plan: Plan) -> tuple[Diagnostic, ...]:
    """Pin the inputs of a plan that are here by now and have no entry in the lock file.

    Returns a warning where the file cannot be written.
    """
    lock = read_lock(project.root) or Lock()
    found = dict(_pins(project, plan, lock))
    if not found:
        return ()
    try:
        write_lock(project.root, replace(lock, inputs={**lock.inputs, **found}))
    except OSError as error:
        return (
            Diagnostic(
                code="not-pinned",
                what=f"{LOCK_FILE} could not be written: {error.strerror}",
                why=f"it is to say which datasets are meant by {', '.join(found)}, so that no "
                "other one can take their place",
                fix="odfbuild lock writes it",
                level=Level.WARNING,
            ),
        )
    return ()


def _pins(project: Opened, plan: Plan, lock: Lock) -> Iterator[tuple[str, LockedInput]]:
    pulls = {step.target: step.work for step in plan.steps if isinstance(step.work, Pull)}
    heads = project.workspace.heads()
    for alias, planned in looked_at(plan.datasets).items():
        if planned.origin is None:
            continue
        key, work = reference_key(parse_remote_ref(planned.origin)), pulls.get(alias)
        based = planned.based_on
        id = work.id if work is not None else None if based is None else based.id
        if key in lock.inputs or id is None or id not in heads:
            continue
        repository = None if work is None else work.repository
        yield key, LockedInput(id=id, head=heads[id], repository=repository)


def without_inputs(
    loaded: Project, looked: "LookedUp", current: Mapping[DatasetAlias, ChainState]
) -> Mapping[DatasetAlias, ChainState]:
    """Return datasets without the inputs of repositories of which something is wrong.

    Nothing is planned that reads them, and nothing is to be said of them as of strays.
    """
    inputs = [given for each in loaded.declared for given in each.remote]
    wrong = [each for each in inputs if reference_key(each.ref) in looked.errors]
    ids, names = {each.id for each in wrong}, {each.alias for each in wrong}
    return {
        alias: state
        for alias, state in current.items()
        if state.dataset not in ids and alias not in names
    }


def as_they_are(
    current: Mapping[DatasetAlias, ChainState], remote: RemoteStates
) -> Mapping[DatasetAlias, ChainState]:
    """Return datasets as they are, of those as they will be once inputs are pulled."""
    if not remote:
        return current
    found = {alias: state for alias, state in current.items() if alias not in remote}
    return found | {alias: each.here for alias, each in remote.items() if each.here is not None}


def _problems(each: Declared, looked: "LookedUp") -> Iterator[Diagnostic]:
    for given in each.remote:
        error = looked.errors.get(reference_key(given.ref))
        if error is not None:
            yield Diagnostic(
                code=error.code,
                what=error.what,
                why=error.why,
                fix=error.fix,
                span=each.span(given.path),
            )
