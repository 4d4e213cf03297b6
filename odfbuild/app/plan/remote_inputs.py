"""Inputs of a project's definitions that are datasets of repositories, for its plan."""

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from odfbuild.errors import Diagnostic, Level, OdfBuildError, ProjectErrors
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.refs import DatasetAlias, parse_remote_ref
from odfbuild.planner.declared import Declared
from odfbuild.planner.plan import Plan, Pull
from odfbuild.planner.plan.at_rest import examined
from odfbuild.planner.plan.remote_inputs import LookMode, RemoteInput, RemoteStates, reference_key
from odfbuild.project.load import Project
from odfbuild.project.lock import LOCK_FILE, Lock, LockedInput, read_lock, write_lock
from odfbuild.project.opened import Opened

if TYPE_CHECKING:
    from odfbuild.repositories.inputs import RemoteInputs

_NOT_PINNED = "not-pinned"
_PINNING = threading.Lock()


def look_up_inputs(
    project: Opened,
    loaded: Project,
    current: Mapping[DatasetAlias, ChainState],
    how: LookMode,
    *,
    among: Iterable[RemoteInput] | None = None,
    repinned: Collection[str] = (),
) -> "RemoteInputs":
    """Return what is known of inputs, after a look at repositories if that is asked for.

    `among` are some of them, by default all; those `repinned` may be other datasets than they were.
    """
    from odfbuild.app.sharing.judging import RepositoryJudge
    from odfbuild.repositories.inputs import look_up

    judge = partial(RepositoryJudge, brings=False)
    if among is None:
        among = [each for declared in loaded.sound for each in declared.remote]
    return look_up(project, among, current, how, judge, repinned=repinned)


def pull_input(project: Opened, work: Pull, alias: DatasetAlias) -> None:
    """Bring an input up to the head that a plan names, and remember where it came from.

    It is pinned at once: what comes after it in the run may fail, or be killed.  A source that came
    along is not used until the user says so.  Raises what `transfer.pull` does.
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
    key = reference_key(parse_remote_ref(work.origin))
    with suppress(OSError):  # which the end of the run says
        _pin(project, {key: LockedInput(id=work.id, head=work.head, repository=work.repository)})


def barred_readers(loaded: Project, looked: "RemoteInputs") -> Mapping[DatasetAlias, OdfBuildError]:
    """Return the definitions that cannot be planned for an input, and why."""
    if not looked.errors:
        return {}
    found = {each.alias: tuple(_problems(each, looked)) for each in loaded.declared}
    return {alias: ProjectErrors(each) for alias, each in found.items() if each}


def pin_inputs(project: Opened, plan: Plan) -> tuple[Diagnostic, ...]:
    """Pin the inputs of a plan that are here by now and have no entry in the lock file.

    Returns a warning where the file cannot be written.
    """
    found = _unpinned_inputs(project, plan)
    if not found:
        return ()
    try:
        _pin(project, found)
    except OSError as error:
        return (
            _not_pinned(
                found,
                f"{LOCK_FILE} could not be written: {error.strerror}",
                "odfbuild lock writes it",
            ),
        )
    return ()


def unpinned_notes(project: Opened, plan: Plan) -> tuple[Diagnostic, ...]:
    """Return a warning of inputs that are here and not pinned, though there is nothing to do.

    A run that pulled them was killed.
    """
    found = _unpinned_inputs(project, plan) if plan.is_empty else {}
    if not found:
        return ()
    what = f"{LOCK_FILE} does not pin {', '.join(found)}: a run that pulled it was interrupted"
    return (_not_pinned(found, what, "odfbuild apply pins it, and so does odfbuild lock"),)


def with_pins(project: Opened, plan: Plan) -> Plan:
    """Pin the inputs of a plan that has nothing to do; return it without the warning of them."""
    notes = tuple(each for each in plan.notes if each.code != _NOT_PINNED)
    return replace(plan, notes=(*notes, *pin_inputs(project, plan)))


def _not_pinned(found: Collection[str], what: str, fix: str) -> Diagnostic:
    return Diagnostic(
        code=_NOT_PINNED,
        what=what,
        why=f"it pins {', '.join(found)}, so that no other dataset can replace them",
        fix=fix,
        level=Level.WARNING,
    )


def _pin(project: Opened, found: Mapping[str, LockedInput]) -> None:
    """Add entries to the lock file, where there are none; steps of a run may do so at once."""
    with _PINNING:
        lock = read_lock(project.root) or Lock()
        if found.keys() - lock.inputs.keys():
            write_lock(project.root, replace(lock, inputs={**found, **lock.inputs}))


def _unpinned_inputs(project: Opened, plan: Plan) -> dict[str, LockedInput]:
    if all(each.origin is None for each in examined(plan.datasets).values()):
        return {}
    return dict(_pins(project, plan, read_lock(project.root) or Lock()))


def _pins(project: Opened, plan: Plan, lock: Lock) -> Iterator[tuple[str, LockedInput]]:
    pulls = {step.target: step.work for step in plan.steps if isinstance(step.work, Pull)}
    heads = project.workspace.heads()
    for alias, planned in examined(plan.datasets).items():
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
    loaded: Project, looked: "RemoteInputs", current: Mapping[DatasetAlias, ChainState]
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


def _problems(each: Declared, looked: "RemoteInputs") -> Iterator[Diagnostic]:
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
