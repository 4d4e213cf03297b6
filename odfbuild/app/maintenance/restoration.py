"""Restoration of lost files of derivatives: which are lost, then inputs first."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import groupby
from typing import TYPE_CHECKING

from odfbuild.app.plan.step_placement import step_placement
from odfbuild.errors import OdfBuildError
from odfbuild.executors.engine.registry import engine_of, query_engines
from odfbuild.executors.verify.run import inputs_first
from odfbuild.odf.identity import DatasetId
from odfbuild.project.opened import Opened
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from odfbuild.executors.verify.history import RecordedHistories
    from odfbuild.executors.verify.restoration import LostFile, Restored


@dataclass(frozen=True, slots=True)
class Losses:
    """What is lost of datasets, in the order of restoring it, and chains that cannot be read."""

    past: "RecordedHistories"
    files: "Mapping[DatasetId, tuple[LostFile, ...]]"
    unreadable: Mapping[DatasetId, str] = field(default_factory=dict)


def find_losses(project: Opened, chosen: Sequence[DatasetId]) -> Losses:
    """Read all files of datasets and return those that are missing or not as recorded."""
    from odfbuild.executors.verify.history import RecordedHistories
    from odfbuild.executors.verify.restoration import lost_files

    project.workspace.read_anew()
    past = RecordedHistories(project.workspace)
    files: dict[DatasetId, tuple[LostFile, ...]] = {}
    unreadable: dict[DatasetId, str] = {}
    for each in inputs_first(past, chosen):
        if each not in chosen:
            continue
        try:
            history = past.history(each)
            lost = () if history is None else lost_files(history)
        except OdfBuildError as error:
            unreadable[each] = error.what
            continue
        if lost:
            files[each] = lost
    return Losses(past, files, unreadable)


def foreseen(project: Opened, losses: Losses) -> "Iterator[tuple[DatasetId, Restored]]":
    """Yield what would become of each lost file, as far as no step has to be run for that."""
    from odfbuild.executors.verify.restoration import foresee

    for dataset, files in losses.files.items():
        for _, group in groupby(files, key=lambda each: each.block):
            found = foresee(tuple(group), losses.past, project.workspace)
            yield from ((dataset, each) for each in found)


def restorations(
    project: Opened, losses: Losses, *, reencode: bool
) -> "Iterator[tuple[DatasetId, Restored]]":
    """Run the steps of lost files again and yield what became of each; `reencode` as in `restore`.

    The engine is started for the first step that can be run here.  Steps are run elsewhere if
    `apply` would have that done.  Raises NotPermittedError.
    """
    from odfbuild.executors.process.interrupt import stoppable
    from odfbuild.executors.transform.step_engines import StepEngines
    from odfbuild.executors.verify.restoration import foresee, restore

    engine = None
    placement = step_placement(project) if _has_steps(losses) else None
    engines = StepEngines(project.workspace, placement)
    try:
        with stoppable():
            for dataset, files in losses.files.items():
                for _, group in groupby(files, key=lambda each: each.block):
                    lost = tuple(group)
                    step = lost[0].step
                    if step is None:
                        known = foresee(lost, losses.past, project.workspace)
                        yield from ((dataset, each) for each in known)
                        continue
                    if engine is None:
                        engine = engine_of(project)
                        made = step.before.transform
                        here = None if engines.takes(dataset, made) else made
                        engine.prepare(queries=query_engines(here), merges=False)
                    own = engines.of(dataset, engine)
                    found = restore(lost, losses.past, own, project.workspace, reencode=reencode)
                    yield from ((dataset, replace(each, place=own.place)) for each in found)
    except BaseException:
        if engine is not None:
            engine.cancel()
        engines.cancel()
        raise
    finally:
        if engine is not None:
            engine.close()


def _has_steps(losses: Losses) -> bool:
    return any(each.step is not None for files in losses.files.values() for each in files)
