"""What a change means to those who use a dataset: its class, its columns, the rules that it meets.

Plain values, made by the assessment, carried by the plan, printed elsewhere.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueryClass:
    """How a transform can be computed (linear, join, keyed, state, whole), and the clause why."""

    name: str
    because: str | None = None
