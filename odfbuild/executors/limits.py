"""Limits that the user may set through the environment: how long something may take, in seconds."""

from collections.abc import Mapping
from typing import Final

from odfbuild.errors import EngineError

__all__ = ["BadLimitError", "seconds"]

_DAY: Final = 86_400


class BadLimitError(EngineError):
    """A limit in the environment is no number of seconds."""

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
