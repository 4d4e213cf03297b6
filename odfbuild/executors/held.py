"""Hold new rows back before they are committed, where the project has checks on them."""

from typing import TYPE_CHECKING

from odfbuild.executors.site import Site
from odfbuild.odf.chain import ChainState
from odfbuild.odf.identity import DatasetId

if TYPE_CHECKING:
    from odfbuild.errors import Diagnostic
    from odfbuild.executors.slices import Sealed

__all__ = ["held_back"]


def held_back(
    site: Site, dataset: DatasetId, state: ChainState, sealed: "Sealed | None", source: str
) -> "tuple[Diagnostic, ...]":
    """Make the checks on what is about to be committed; return what is only to be told of it.

    `state` is the dataset before, `source` what the rows come of.  Raises DataCheckError when a
    check fails that holds rows back.
    """
    if site.gate is None or sealed is None or not sealed.slices:
        return ()
    return site.gate.check(site, dataset, state, sealed, source)
