"""Undo of a run: the earlier heads, their order, and the datasets that diverge.  Pure.

A head goes back to the block where the run found it.  A dataset that the run made loses its name
and its head: before the run there was none.
"""

from collections.abc import Collection, Mapping, Sequence

from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import DatasetKind
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.maintenance.rewrite import Stranded, readers, stranded
from odfbuild.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadReturn:
    """One dataset: the head that it has to have, and the one that it gets; None is no dataset.

    `old_name` is what it is called afterwards, if that differs.  `blocks` and `records` count what
    is given up, or, where a run that took back is taken back itself, nothing.
    """

    alias: DatasetAlias
    id: DatasetId
    kind: DatasetKind
    expected: Multihash | None
    to: Multihash | None
    old_name: DatasetAlias | None = None
    blocks: int = 0
    records: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """What taking a run back does; `diverging` are datasets that cannot go on afterwards.

    Without a run, it is datasets that are retired.
    """

    run: str | None
    project: str
    target: str
    workspace: str
    steps: tuple[HeadReturn, ...]
    diverging: tuple[Stranded, ...]


def in_order(
    steps: Sequence[HeadReturn], states: Mapping[DatasetAlias, ChainState]
) -> tuple[HeadReturn, ...]:
    """Put what reads others before what it reads, so that no reader is ever ahead of an input.

    What comes into being again goes the other way round.
    """
    behind = {each.id: len(readers(each.id, states)) for each in steps}
    going = sorted((s for s in steps if s.expected), key=lambda s: (behind[s.id], s.alias))
    coming = sorted((s for s in steps if not s.expected), key=lambda s: (-behind[s.id], s.alias))
    return (*going, *coming)


def diverging(
    steps: Sequence[HeadReturn],
    vanishing: Mapping[DatasetId, Collection[Multihash]],
    after: Mapping[DatasetAlias, ChainState],
) -> tuple[Stranded, ...]:
    """Return the datasets that read what vanishes; `after` is where all stand then."""
    found: dict[tuple[DatasetAlias, Multihash], Stranded] = {}
    for step in steps:
        gone = vanishing.get(step.id, ())
        for each in stranded(step.id, gone, after):
            found[each.dataset, each.block] = each
        if step.to is None and step.expected is not None:
            for each in _left_behind(step, step.expected, after):
                found.setdefault((each.dataset, each.block), each)
    return tuple(sorted(found.values(), key=lambda each: (each.dataset, str(each.block))))


def _left_behind(
    step: HeadReturn, last: Multihash, after: Mapping[DatasetAlias, ChainState]
) -> Sequence[Stranded]:
    """Return the datasets whose definition names one that is not there any more."""
    named = (
        (alias, state)
        for alias, state in after.items()
        if state.transform is not None
        and any(each.dataset_ref == step.id for each in state.transform.inputs)
        and step.id not in state.progress
    )
    return [
        Stranded(alias, last, None, tuple(sorted(readers(state.dataset, after))))
        for alias, state in named
    ]
