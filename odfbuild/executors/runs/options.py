"""Run options: what ends a run early, and how many steps may use one thing at a time."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field

from odfbuild.errors import OdfBuildError
from odfbuild.odf.refs import DatasetAlias
from odfbuild.values import dataclass

DEFAULT_POOL = "default"


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """How a run goes about its steps.

    With `fail_fast` no step begins after one has failed.  `pools` say how many steps at a time may
    use what each stands for; `members` name the pools of datasets, all others are in `default`.
    An ingest ends after so many `slices`.  `ending` is called when the run was stopped.
    Definitions that are `refused` are not written, and their steps fail with the error.
    """

    fail_fast: bool = False
    pools: Mapping[str, int] = field(default_factory=dict)
    members: Mapping[DatasetAlias, tuple[str, ...]] = field(default_factory=dict)
    slices: int | None = None
    ending: Callable[[], None] = _nothing
    refused: Mapping[DatasetAlias, OdfBuildError] = field(default_factory=dict)

    def has_room(self, target: DatasetAlias, running: Iterable[DatasetAlias]) -> bool:
        """Say whether a step may run beside those that do, by their datasets."""
        if not self.pools:
            return True
        used = Counter(pool for each in running for pool in self._pools_of(each))
        return all(used[pool] < self.pools[pool] for pool in self._pools_of(target))

    def _pools_of(self, target: DatasetAlias) -> tuple[str, ...]:
        found = (each for each in self.members.get(target, (DEFAULT_POOL,)) if each in self.pools)
        return tuple(found)
