"""Columns of queries from engines that start at once, for all that judges or shows definitions.

It is asked about queries as they are declared, as chains have them, and as they were in a revision,
with the columns that their inputs had there.  Nothing is started, nor imported, before a question
whose answer is not kept.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from odfbuild.project.config.engines import DEFAULT_ENGINE, ENGINES

if TYPE_CHECKING:
    from odfbuild.executors.engine.columns import Asker
    from odfbuild.odf.events import DataSchema
    from odfbuild.planner.evolution.columns.answers import QueryInput
    from odfbuild.planner.evolution.columns.derive import Makes
    from odfbuild.project.opened import Opened


def quick_engine_names() -> frozenset[str]:
    """Return the engines that start at once and are installed."""
    from odfbuild.executors.engine.protocol import engine_version

    quick = (name for name, engine in ENGINES.items() if engine.starts_at_once)
    return frozenset(name for name in quick if engine_version(name))


def quick_asker(
    project: "Opened",
    names: frozenset[str],
    elsewhere: Mapping[str, str] = MappingProxyType({}),
) -> "Asker":
    """Return what asks engines that start at once, and with `elsewhere` engines elsewhere."""
    from odfbuild.executors.engine.columns import Asker
    from odfbuild.executors.engine.protocol import engine_version
    from odfbuild.executors.engine.registry import QuickEngines
    from odfbuild.state.memory.engine_answers import Answers

    cache = project.workspace.root / "cache"
    answers = Answers(cache / "answers.sqlite" if cache.is_dir() else None)
    start = partial(QuickEngines, project, names, elsewhere)
    return Asker(start, engine_version(DEFAULT_ENGINE) or "", answers, names, elsewhere)


class QuickColumns:
    """What queries of a project give, as engines that start at once say; see `EngineColumns`."""

    def __init__(self, project: "Opened") -> None:
        self._project = project

    def __call__(self, makes: "Makes", inputs: "Sequence[QueryInput]") -> "DataSchema | None":
        """Return the columns of the query of a definition; None if no engine tells."""
        return self.asker.columns(makes, inputs)

    @cached_property
    def asker(self) -> "Asker":
        """What is asked."""
        return quick_asker(self._project, quick_engine_names())
