"""Datasets at rest in a plan: nothing is reported of them.  Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import overload

from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.plan import Planned


class WithRest(Mapping[DatasetAlias, Planned]):
    """The datasets of a plan in order; those at rest are made when they are asked for.

    `examined` are those that something may be said of, `size` is the number of all, `built` of
    those that have a head.
    """

    def __init__(
        self,
        examined: Mapping[DatasetAlias, Planned],
        size: int,
        every: Callable[[], Mapping[DatasetAlias, Planned]],
    ) -> None:
        self.examined = examined
        self._size = size
        self._every = every

    @property
    def built(self) -> int:
        """The number of datasets that have a head; those at rest have one."""
        absent = sum(each.based_on is None for each in self.examined.values())
        return self._size - absent

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[DatasetAlias]:
        return iter(self._all)

    def __getitem__(self, alias: DatasetAlias) -> Planned:
        found = self.examined.get(alias)
        return self._all[alias] if found is None else found

    @cached_property
    def _all(self) -> Mapping[DatasetAlias, Planned]:
        return self._every()


class DatasetNames(Sequence[DatasetAlias]):
    """Names of datasets in order, of a known number, made when they are asked for."""

    def __init__(self, size: int, every: Callable[[], tuple[DatasetAlias, ...]]) -> None:
        self._size = size
        self._every = every

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, at: int) -> DatasetAlias: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[DatasetAlias, ...]: ...
    def __getitem__(self, at: int | slice) -> DatasetAlias | tuple[DatasetAlias, ...]:
        return self._all[at]

    def __iter__(self) -> Iterator[DatasetAlias]:
        return iter(self._all)

    @cached_property
    def _all(self) -> tuple[DatasetAlias, ...]:
        return self._every()


def examined(datasets: Mapping[DatasetAlias, Planned]) -> Mapping[DatasetAlias, Planned]:
    """Return the datasets of a plan that something may be said of."""
    return datasets.examined if isinstance(datasets, WithRest) else datasets


def heads(datasets: Mapping[DatasetAlias, Planned]) -> int:
    """Return how many datasets of a plan have a head."""
    if isinstance(datasets, WithRest):
        return datasets.built
    return sum(each.based_on is not None for each in datasets.values())
