"""Checks of the engines that queries of definitions name."""

from collections.abc import Collection, Iterator
from typing import Final

from odfbuild.errors import Diagnostic
from odfbuild.odf.events import AddPushSource, SetPollingSource, SetTransform
from odfbuild.odf.opaque import is_opaque
from odfbuild.planner.declared import Declared
from odfbuild.project.config.engines import ENGINES

_SIMILAR: Final = {"flink": " (spark reads TUMBLE and FOR SYSTEM_TIME AS OF as well)"}
"""Engines of other programs, and which of ours reads what is usual there."""


def engine_problems(each: Declared, outside: Collection[str]) -> Iterator[Diagnostic]:
    """Yield the engines that a definition names and that are neither installed nor `outside`."""
    for at, event in enumerate(each.written.metadata):
        if isinstance(event, SetTransform):
            key, query = "transform", event.transform
        elif isinstance(event, SetPollingSource | AddPushSource) and event.preprocess is not None:
            key, query = "preprocess", event.preprocess
        else:
            continue
        if is_opaque(query) or query.engine in ENGINES or query.engine in outside:
            continue
        known = ", ".join([*ENGINES, *sorted(outside)])
        yield Diagnostic(
            code="engine-not-installed",
            what=f"the engine '{query.engine}' is not installed",
            why="a query is only run by the engine for which it was written",
            fix=f"write the query for one of the installed engines: {known}"
            f"{_SIMILAR.get(query.engine.lower(), '')}; or name the address of another one in "
            "`engines` of odfbuild.yaml",
            span=each.span(("metadata", at, key, "engine")),
        )
