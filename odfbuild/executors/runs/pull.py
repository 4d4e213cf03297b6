"""A pull: a dataset of a repository is brought up to the head that the plan names.

Blocks are received and held to all rules, then what they speak of is downloaded, and the head moves
last: whatever breaks off leaves the old head or the new one.
"""

from collections.abc import Callable

from odfbuild.errors import PlanError
from odfbuild.executors.engine.context import Round, Site
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.plan import Pull


class UnaskedRepositoryError(PlanError):
    """A plan would pull a dataset whose repository was not checked."""

    code = "unasked-repository"

    def __init__(self, work: Pull) -> None:
        super().__init__(
            what=f"{work.origin}: the plan does not say what is pulled",
            why="it was made without a look at the repository, so its gate judged nothing of it",
            fix="plan again; odfbuild plan --out looks at repositories",
        )


def pull(site: Site, alias: DatasetAlias, work: Pull, done: Callable[[Round], None]) -> None:
    """Carry out a pull.  Raises what the repository raises, and UnaskedRepositoryError."""
    if work.head is None or site.puller is None:
        raise UnaskedRepositoryError(work)
    site.puller(work, alias)
    done(Round(work.origin, work.blocks, work.records, head=work.head))
