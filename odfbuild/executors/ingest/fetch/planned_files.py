"""Differences between the files of a plan and those that its apply reads.

A plan may be applied long after it was made.  The apply reads the files that the source has by
then, as a new plan would; the differences are reported.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from odfbuild.errors import Diagnostic, Level, OdfBuildError
from odfbuild.executors.engine.context import OTHER_FILES, Site
from odfbuild.executors.ingest.fetch.local import SOURCE_NAME, Listings, news
from odfbuild.odf.events import FetchStepFilesGlob
from odfbuild.planner.plan import Step
from odfbuild.planner.plan.reasons import SourceHasNews
from odfbuild.state.chain.dataset import Dataset

_SHOWN = 5


def other_files(site: Site, dataset: Dataset, step: Step) -> Diagnostic | None:
    """Return a warning if the files to read are not those that a step was planned for.

    None if they are, or if the files cannot be listed, which the fetch reports.
    """
    planned = [each for each in step.reasons if isinstance(each, SourceHasNews)]
    state = dataset.state()
    source = None if state is None else state.polling
    if state is None or source is None or not planned or planned[0].is_absent:
        return None
    fetch = source.fetch
    if not isinstance(fetch, FetchStepFilesGlob):
        return None
    known = state.source_state.get(SOURCE_NAME)
    with suppress(OdfBuildError, OSError):
        listings = Listings()
        reach = partial(site.permissions.check_path, project=site.project_dir)
        names = _names(news(fetch, known, site.project_dir, listings, reach))
        if names == list(planned[0].names):
            return None
        expected = set(planned[0].names)
        there = set(_names(news(fetch, None, site.project_dir, listings, reach)))
        new = [each for each in names if each not in expected]
        gone = [each for each in planned[0].names if each not in there]
        return _difference(new, gone)
    return None


def _names(paths: Sequence[str] | None) -> list[str]:
    return [Path(path).name for path in paths or ()]


def _difference(new: Sequence[str], gone: Sequence[str]) -> Diagnostic | None:
    parts = [f"new files are read as well: {_some(new)}"] * bool(new)
    parts += [f"no longer exist, and are not read: {_some(gone)}"] * bool(gone)
    if not parts:
        return None
    return Diagnostic(
        code=OTHER_FILES,
        what=f"the source has other files than when the plan was made; {'; '.join(parts)}",
        why="an apply reads what a source holds when it runs, all of it and in order",
        fix="nothing, if this is intended; else correct the files and plan again; odfbuild undo "
        "drops what was read",
        level=Level.WARNING,
    )


def _some(names: Sequence[str]) -> str:
    more = f", and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"
