"""Shapes of queries over the inputs `a`, `b`, `c` and `r`, of every class."""

from tests.rule.shapes.combined import COMBINED
from tests.rule.shapes.joins import JOINS
from tests.rule.shapes.keyed import KEYED
from tests.rule.shapes.linear import LINEAR
from tests.rule.shapes.order import ORDER
from tests.rule.shapes.shape import Shape
from tests.rule.shapes.stars import STARS
from tests.rule.shapes.state import STATE
from tests.rule.shapes.structs import STRUCTS
from tests.rule.shapes.types import TYPES
from tests.rule.shapes.whole import WHOLE
from tests.rule.shapes.windows import WINDOWS

__all__ = ["SHAPES", "Shape"]

SHAPES: tuple[Shape, ...] = (
    *LINEAR,
    *JOINS,
    *KEYED,
    *STARS,
    *STATE,
    *COMBINED,
    *WHOLE,
    *ORDER,
    *WINDOWS,
    *STRUCTS,
    *TYPES,
)
