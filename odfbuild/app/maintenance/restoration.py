"""Restoration of lost files of derivatives: which are lost, then inputs first."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from itertools import groupby
from typing import TYPE_CHECKING

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

    The engine is started for the first step that can be run.
    """
    from odfbuild.executors.process.interrupt import stoppable
    from odfbuild.executors.verify.restoration import foresee, restore

    engine = None
    try:
        with stoppable():
            for dataset, files in losses.files.items():
                for _, group in groupby(files, key=lambda each: each.block):
                    lost = tuple(group)
                    if lost[0].step is None:
                        known = foresee(lost, losses.past, project.workspace)
                        yield from ((dataset, each) for each in known)
                        continue
                    if engine is None:
                        engine = engine_of(project)
                        engine.prepare(
                            queries=query_engines(lost[0].step.before.transform), merges=False
                        )
                    found = restore(lost, losses.past, engine, project.workspace, reencode=reencode)
                    yield from ((dataset, each) for each in found)
    except BaseException:
        if engine is not None:
            engine.cancel()
        raise
    finally:
        if engine is not None:
            engine.close()
