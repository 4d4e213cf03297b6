"""Going over from one query, or one version of the engine, to another ("Migrate Query").  Pure.

What was written stays in either case.  So a step that takes back what it finds outdated has to know
what was written by which rule, and where the engine cannot tell it refuses.
"""

from odfbuild.odf.chain_state import RESTATE
from odfbuild.odf.events import TransformSql
from odfbuild.odf.opaque import is_opaque

__all__ = ["is_same_query", "migration_refusal"]


def migration_refusal(
    previous: TransformSql, following: TransformSql, installed: str
) -> str | None:
    """Return why the `installed` version cannot go on from `previous` with `following`.

    Another version of the same query is no reason: whether it gives the same rows is for a replay
    to tell.
    """
    if is_opaque(previous) or is_opaque(following):
        return "the query is of a kind that this version does not know"
    if following.engine.lower() != previous.engine.lower():
        return f"the rows so far were made by {previous.engine}, not by {following.engine}"
    wanted = (following.version or installed).removesuffix(RESTATE)
    if wanted != installed:
        return f"the query is for version {wanted}, and {installed} is installed"
    return None if is_same_query(previous, following) else _changed(previous, following)


def is_same_query(one: TransformSql, other: TransformSql) -> bool:
    """Say whether two transforms compute the same, whatever version of the engine they name."""
    from odfbuild.planner.sql.query import steps_of

    return (
        steps_of(one) == steps_of(other)
        and (one.temporal_tables or ()) == (other.temporal_tables or ())
        and one.engine.lower() == other.engine.lower()
    )


def _changed(previous: TransformSql, following: TransformSql) -> str | None:
    from odfbuild.planner.sql.query import examine, steps_of

    if (following.version or "").endswith(RESTATE):
        return None
    kinds = [examine(steps_of(each), ()).kind for each in (previous, following)]
    if kinds == ["linear", "linear"]:
        return None
    return "a step of the new query could not tell its own rows from those of the query before"
