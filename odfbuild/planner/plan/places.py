"""Places of a plan's steps: the engines elsewhere that carry them out, as they were when planned.

An apply follows them, whatever the project says by then of where steps go.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from odfbuild.odf.identity import Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePlace:
    """An engine elsewhere, and the datasets whose steps it carries out.

    `runs` is its address, program or image; `settings` the hash of its entry in the project.  It
    has all steps of `datasets`, and those of `large` that may read `least` bytes or more.  Where
    several have a dataset, the first one counts.
    """

    engine: str
    runs: str
    settings: Multihash
    datasets: tuple[DatasetAlias, ...] = ()
    large: tuple[DatasetAlias, ...] = ()
    least: int | None = None


def places_of(
    places: Sequence[EnginePlace], wanted: Collection[DatasetAlias]
) -> tuple[EnginePlace, ...]:
    """Return the places of some datasets: the engines that have steps of them, with no others."""
    found = (
        replace(
            each,
            datasets=tuple(name for name in each.datasets if name in wanted),
            large=tuple(name for name in each.large if name in wanted),
        )
        for each in places
    )
    return tuple(each for each in found if each.datasets or each.large)


def united(places: Iterable[EnginePlace]) -> tuple[EnginePlace, ...]:
    """Return the places of several steps, each engine once, in the order in which they come."""
    found: dict[str, EnginePlace] = {}
    for each in places:
        known = found.get(each.engine)
        found[each.engine] = (
            each
            if known is None
            else replace(
                known,
                datasets=(*known.datasets, *each.datasets),
                large=(*known.large, *each.large),
                least=known.least if each.least is None else each.least,
            )
        )
    return tuple(found.values())
