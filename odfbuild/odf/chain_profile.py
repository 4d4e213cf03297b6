"""Whose rules a chain is held to: the specification leaves much open, and the reference changed."""

from enum import Enum, auto

__all__ = ["Profile"]


class Profile(Enum):
    """Whose rules to apply: those of what we write, or of the reference implementation.

    SPEC is the specification and, where it is silent, today's reference.
    """

    SPEC = auto()
    REFERENCE_2024 = auto()
    REFERENCE_HEAD = auto()
