"""The class of a query, as plans and checks name it."""

from typing import Final

from odfbuild.values import dataclass

CLASSES: Final = {
    "linear": "the new rows",
    "state": "the new rows, and what is kept of their groups",
    "join": "the new rows, and the rows of other inputs that they may meet",
    "keyed": "of every input, and of the dataset, all rows of the keys that new rows have",
    "whole": "everything",
}
"""What a step of each class reads, from the least to the most."""


@dataclass(frozen=True, slots=True)
class QueryClass:
    """How a transform can be computed, one of `CLASSES`, and the clause why."""

    name: str
    because: str | None = None
