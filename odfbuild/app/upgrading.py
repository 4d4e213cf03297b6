"""Go over to the installed version of the engine, where it gives the rows that are recorded."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from time import time_ns
from typing import TYPE_CHECKING

from odfbuild.app.opened import Opened
from odfbuild.app.verifying import replaying, steps_since
from odfbuild.executors.engine import engine_version
from odfbuild.odf.chain import ChainState
from odfbuild.odf.events import SetTransform
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.opaque import is_opaque
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.engines import made_by_another, upgraded
from odfbuild.state.applied import record_applied
from odfbuild.state.prepared import Prepared

if TYPE_CHECKING:
    from odfbuild.executors.replay import RecordedStep, Replayed

__all__ = ["Upgrade", "Upgraded", "outdated", "record", "replayed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """A dataset of another version: the event that would record the installed one after `state`."""

    alias: DatasetAlias
    id: DatasetId
    state: ChainState
    before: str
    event: SetTransform

    @property
    def after(self) -> str:
        """Return the installed version."""
        return self.event.transform.version or ""


@dataclass(frozen=True, slots=True)
class Upgraded:
    """What came of running again the steps of another version."""

    upgrade: Upgrade
    replayed: "tuple[Replayed, ...]"

    @property
    def passed(self) -> bool:
        """Say whether the installed version gives all that is recorded."""
        return not any(each.findings for each in self.replayed)


def outdated(project: Opened, chosen: Iterable[DatasetAlias]) -> tuple[Upgrade, ...]:
    """Return the datasets whose transform in force is recorded with another version."""
    known = project.workspace.names()
    found = (_upgrade(project, name, known[name]) for name in chosen)
    return tuple(each for each in found if each is not None)


def _upgrade(project: Opened, alias: DatasetAlias, id: DatasetId) -> Upgrade | None:
    state = project.workspace.dataset(id).state()
    event = None if state is None else _event(state)
    if state is None or state.transform is None or event is None:
        return None
    return Upgrade(
        alias=alias,
        id=id,
        state=state,
        before=state.transform.transform.version or "",
        event=event,
    )


def _event(state: ChainState) -> SetTransform | None:
    known = state.transform
    if known is None or is_opaque(known.transform):
        return None
    installed = engine_version(known.transform.engine)
    return None if installed is None else upgraded(state, installed)


def replayed(project: Opened, upgrades: Iterable[Upgrade], jobs: int) -> Iterator[Upgraded]:
    """Run all steps of other versions again, so many at a time, and yield what came of each."""
    from odfbuild.executors.past import Past

    past = Past(project.workspace)
    wanted = tuple(upgrades)
    steps = {
        each.id: tuple(step for step in steps_since(past, each.id) if not _is_installed(step))
        for each in wanted
    }
    with replaying(project, past, steps, jobs, anyway=True) as run:
        again = {each.id: run.submit(steps[each.id]) for each in wanted}
        for each in wanted:
            yield Upgraded(each, tuple(future.result() for future in again[each.id]))


def _is_installed(step: "RecordedStep") -> bool:
    """Say whether a step says that the installed version made it."""
    made = step.before.transform
    if made is None or is_opaque(made.transform) or made.transform.version is None:
        return False
    installed = engine_version(made.transform.engine)
    return installed is not None and not made_by_another(made.transform, installed)


def record(project: Opened, upgrades: Iterable[Upgrade]) -> Mapping[DatasetAlias, Multihash]:
    """Append to each dataset the event that names the installed version; return the new heads.

    Raises HeadMovedError at the first dataset that moved since.
    """
    heads: dict[DatasetAlias, Multihash] = {}
    try:
        for each in upgrades:
            now = max(Timestamp.from_millis(time_ns() // 1_000_000), each.state.system_time)
            dataset = project.workspace.dataset(each.id)
            heads[each.alias] = dataset.commit(Prepared((each.event,), now), on=each.state).head
    finally:
        record_applied(project.workspace, dict.fromkeys(heads, False))
    return heads
