"""Engines of recorded steps: those here, and those elsewhere that a project places steps on."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TypeAlias

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.context import RemoteEngine, StepEngine, StepPlacement
from odfbuild.executors.engine.protocol import Engine, TransformWork
from odfbuild.odf.events import SetTransform, TransformSql
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.workspace import Workspace

Placed: TypeAlias = tuple[str, RemoteEngine] | None
"""The name of an engine elsewhere and what asks it, None for what is done here."""


class StepEngines:
    """Gives each step what carries it out, by the name that its dataset has now."""

    def __init__(self, workspace: Workspace, placement: StepPlacement | None = None) -> None:
        self._workspace = workspace
        self._placement = placement

    def takes(self, dataset: DatasetId, made: SetTransform | None) -> bool:
        """Tell whether the steps of a dataset are carried out elsewhere, however large."""
        target = self._target(dataset)
        return (
            self._placement is not None
            and target is not None
            and made is not None
            and isinstance(made.transform, TransformSql)
            and self._placement.takes(target, made.transform)
        )

    def of(self, dataset: DatasetId, engine: Engine) -> "PlacedStepEngine":
        """Return what carries out a step; `engine` does if it is not placed elsewhere."""
        placement, target = self._placement, self._target(dataset)
        if placement is None or target is None:
            return PlacedStepEngine(engine, lambda _: None)
        return PlacedStepEngine(engine, lambda work: placement.place(target, work))

    def cancel(self) -> None:
        """End all that runs elsewhere."""
        if self._placement is not None:
            self._placement.cancel()

    def _target(self, dataset: DatasetId) -> DatasetAlias | None:
        return None if self._placement is None else self._names.get(dataset)

    @cached_property
    def _names(self) -> Mapping[DatasetId, DatasetAlias]:
        return {id: name for name, id in self._workspace.names().items()}


class PlacedStepEngine:
    """Carries out one step; `place` is the engine elsewhere that it was given to, if it was."""

    def __init__(self, engine: Engine, choose: Callable[[TransformWork], Placed]) -> None:
        self._engine = engine
        self._choose = choose
        self.place: str | None = None

    def transform(self, work: TransformWork) -> Frame:
        """Run the step; see `Engine`."""
        return (self.elsewhere(work) or self._engine).transform(work)

    def elsewhere(self, work: TransformWork) -> StepEngine | None:
        """Return the engine elsewhere that is to do some work, None if that is done here."""
        placed = self._choose(work)
        if placed is None:
            return None
        self.place, there = placed
        return there
