"""Write geometries as one line of JSON, as the reference does.

No blanks, keys sorted, whole floats with `.0`, other numbers with the fewest digits that tell them
apart; letters as they are.
"""

import json
import re
from typing import Any, Final

__all__ = ["GEOMETRY", "geometry_text"]


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not a number of JSON")


GEOMETRY: Final = json.JSONDecoder(parse_constant=_refuse)
"""Reads a geometry: its floats become those of the machine, as in every geographic library."""

_ENCODER: Final = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
)
_EXPONENT: Final = re.compile(r'"(?:[^"\\]|\\.)*"|(-?)([0-9.]+)e([-+][0-9]+)')


def geometry_text(geometry: Any) -> str:
    """Return a geometry of plain dicts, lists and numbers as text.

    Raises ValueError for a number that JSON cannot hold.
    """
    text = _ENCODER.encode(geometry)
    return _EXPONENT.sub(_number, text) if "e-" in text or "e+" in text else text


def _number(found: re.Match[str]) -> str:
    """Write an exponent as the reference does: 0.00001, 1e-6, 1e16."""
    sign, digits, exponent = found.groups()
    if digits is None:
        return found[0]
    if int(exponent) == -5:
        return f"{sign}0.0000{digits.replace('.', '')}"
    return f"{sign}{digits}e{int(exponent)}"
