"""The heap of Spark as commands take it: --memory."""

from __future__ import annotations

from odfbuild.errors import UsageRefusedError


def heap(memory: str | None) -> str | None:
    """Return an amount of memory as Java takes it.  Raises UsageRefusedError."""
    from odfbuild.project.config.targets import is_memory

    if memory is None or is_memory(memory):
        return memory
    raise UsageRefusedError(
        what=f"--memory {memory}: not an amount of memory",
        why="Java takes a whole number and a unit",
        fix="write it like --memory 512m or --memory 4g",
    )
