"""Rows that an engine elsewhere says a row was made of: what it may say, and what is wrong."""

from collections.abc import Mapping, Sequence

from odfbuild.executors.engine.contract.client import said
from odfbuild.executors.engine.contract.exchange import Wrong
from odfbuild.executors.engine.provenance.derive import InexactError
from odfbuild.odf.events import OffsetInterval
from odfbuild.odf.messages import DeriveProvenanceResponseSuccess


def answered_origins(
    answer: DeriveProvenanceResponseSuccess, rows: Mapping[str, int], wrong: Wrong
) -> Mapping[str, tuple[int, ...]]:
    """Return the offsets of the rows of each input in an answer; `rows` counts those it was given.

    Raises InexactError where the engine says that it does not know, and the error of `wrong` for an
    answer of inputs or offsets that there are not, or not in order and apart.
    """
    found: dict[str, tuple[int, ...]] = {}
    known = False
    for each in answer.inputs:
        alias = each.query_alias
        if alias not in rows or alias in found:
            raise wrong(f"says of an input {said(alias)!r} what a row was made of")
        known |= each.made_of is not None
        found[alias] = _offsets(each.made_of or (), rows[alias], wrong)
    if not known:
        reason = answer.reason
        raise InexactError(
            "the engine does not say"
            if reason is None
            else f"the engine does not say, as {said(reason)}"
        )
    return found


def _offsets(made_of: Sequence[OffsetInterval], rows: int, wrong: Wrong) -> tuple[int, ...]:
    found: list[int] = []
    last = -1
    for each in made_of:
        if not last < each.start <= each.end < rows:
            raise wrong(
                f"says that a row was made of offsets {each.start} to {each.end}, of {rows:,} rows "
                "in order"
            )
        last = each.end
        found += range(each.start, each.end + 1)
    return tuple(found)
