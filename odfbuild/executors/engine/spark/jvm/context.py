"""The context of a JVM as PySpark has it, given up so that there may be another.

Other threads may still use it, as one of several steps sees first that Java has ended.  They then
fail by whatever they come to first: a connection, files that were deleted, an object that is none.
"""

from contextlib import suppress
from typing import Any


def stop_session(session: Any) -> None:
    """Stop a session with its context, in Java as well."""
    context = session.sparkContext
    with suppress(Exception):  # a JVM that has ended answers nothing
        context._jsc.stop()
    context._jsc = _GivenUp(context._jsc)
    session.stop()


def forget_context(context: Any) -> None:
    """Give up a context whose Java goes on."""
    context._jsc = _GivenUp(context._jsc)
    context.stop()


def is_given_up(session: Any) -> bool:
    """Tell whether another thread gave up the context of a session; never of a server's."""
    context = getattr(session, "_sc", None)
    return isinstance(getattr(context, "_jsc", None), _GivenUp)


class _GivenUp:
    """The Java object of a context, which counts as none for who stops that."""

    def __init__(self, java: Any) -> None:
        self._java = java

    def __bool__(self) -> bool:
        return False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._java, name)
