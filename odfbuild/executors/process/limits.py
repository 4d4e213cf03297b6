"""Limits that the user may set by environment variables: durations and sizes."""

from collections.abc import Mapping
from typing import Final

from odfbuild.errors import EngineError

_DAY: Final = 86_400
_EXBIBYTE: Final = 1 << 40


class BadLimitError(EngineError):
    """A limit in the environment is not a number, or out of range."""

    code = "limit"


def seconds(env: Mapping[str, str], name: str, default: float, meaning: str) -> float:
    """Return a limit in seconds, more than 0 and up to a day; raises BadLimitError."""
    text = env.get(name)
    if text is None:
        return default
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if 0 < found <= _DAY:
        return found
    raise BadLimitError(
        what=f"{name} is {text!r}",
        why=f"it is {meaning}, in seconds, more than 0 and at most {_DAY}",
        fix=f"set {name}={default:g}, or unset it",
    )


def mebibytes(env: Mapping[str, str], name: str, default: int, meaning: str) -> int:
    """Return a limit in bytes, given in MiB, at least one; raises BadLimitError."""
    text = env.get(name)
    if text is None:
        return default << 20
    if text.isascii() and text.isdecimal() and 0 < int(text[:20]) <= _EXBIBYTE:
        return int(text) << 20
    raise BadLimitError(
        what=f"{name} is {text!r}",
        why=f"it is {meaning}, in MiB, a whole number from 1 on",
        fix=f"set {name}={default}, or unset it",
    )
