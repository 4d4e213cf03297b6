"""Reservation of datasets: a command waits, skips or fails while another run works on them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from odfbuild.cli.arguments.options import OnBusy
from odfbuild.cli.terminal.console import printable
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.plan import Plan
from odfbuild.planner.plan.subset import fitting, names_of, touched
from odfbuild.state.lease import BusyError, Holder, Lease, Worker, holder_text, take_lease
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild import app

_REPLANNED = 10
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Reservation:
    """What a command has for itself; `busy` are the names that it is to leave out."""

    busy: frozenset[DatasetAlias]
    waited: bool
    _lease: Lease
    _worker: Worker

    def begun(self, run: str) -> None:
        """Note the id of the run for those who wait."""
        self._lease.note(replace(self._worker, run=run))


@contextmanager
def reservation(
    project: app.Opened,
    written: Collection[DatasetAlias],
    read: Collection[DatasetAlias] = (),
    *,
    command: str,
    on_busy: str,
    pause: Callable[[float], None] = time.sleep,
) -> Iterator[Reservation]:
    """Have datasets for oneself for a while: `written` alone, `read` with others who read them.

    Says on stderr who has them otherwise.  Raises BusyError for `fail`.
    """
    from odfbuild.executors.runs.record import worker

    waited: list[DatasetAlias] = []

    def on_wait(alias: DatasetAlias, by: Holder | None) -> None:
        waited.append(alias)
        _say(f"{alias} is busy: {holder_text(by)}; waiting")

    me = worker(command)
    lease, busy = take_lease(
        project.workspace.root,
        me,
        written=written,
        read=read,
        waits=on_busy == OnBusy.WAIT,
        on_wait=on_wait,
        pause=pause,
        far=project.workspace.far_leases,
    )
    try:
        if on_busy == OnBusy.FAIL and busy:
            raise BusyError(busy)
        _say_skipped(busy)
        if waited:
            _say("continuing")
        yield Reservation(frozenset(busy), bool(waited), lease, me)
    finally:
        lease.release()


@contextmanager
def reserved_for(
    project: app.Opened,
    make: Callable[[], Made],
    plan_of: Callable[[Made], Plan],
    *,
    command: str,
    on_busy: str,
    pause: Callable[[float], None] = time.sleep,
) -> Iterator[tuple[Made, Plan, Reservation]]:
    """Make a plan and have its datasets for oneself: one that does not touch what is left out.

    It is made again where another run, which was waited for, moved them meanwhile.
    """
    made = make()
    for left in reversed(range(_REPLANNED)):
        written, read = names_of(plan_of(made))
        with reservation(
            project, written, read, command=command, on_busy=on_busy, pause=pause
        ) as mine:
            if _is_moved(project, plan_of(made), mine.busy):
                made = make()
                wanted = names_of(plan_of(made))
                if left and not (wanted[0] <= written and wanted[1] <= written | read):
                    continue
            yield made, fitting(plan_of(made), mine.busy), mine
            return


def _is_moved(project: app.Opened, plan: Plan, busy: Collection[DatasetAlias]) -> bool:
    from odfbuild.executors.runs.definition import StalePlanError
    from odfbuild.executors.runs.scheduler import check_heads

    try:
        check_heads(touched(fitting(plan, busy)), project.workspace)
    except StalePlanError:
        return True
    return False


def _say_skipped(busy: Mapping[DatasetAlias, Holder | None]) -> None:
    for alias, by in busy.items():
        _say(f"{alias} is busy: {holder_text(by)}; skipped")


def _say(text: str) -> None:
    sys.stderr.write(printable(text) + "\n")
    sys.stderr.flush()
