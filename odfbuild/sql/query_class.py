"""The class of a query, as plans and checks name it."""

from odfbuild.values import dataclass


@dataclass(frozen=True, slots=True)
class QueryClass:
    """How a transform can be computed (linear, join, keyed, state, whole), and the clause why."""

    name: str
    because: str | None = None
