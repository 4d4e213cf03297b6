"""Which SQL texts are read, and how often."""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Lock, get_ident
from unittest.mock import patch

from odfbuild.sql.text import parse
from odfbuild.sql.text.statement import Statement

__all__ = ["texts_read"]

_READ = parse.read
_ONE = Lock()


@contextmanager
def texts_read() -> Iterator[Counter[str]]:
    """Count each time that this thread reads a text meanwhile, also where it was remembered.

    Other threads wait to count theirs.
    """
    real, found, mine = _READ, Counter[str](), get_ident()

    def read(text: str) -> Statement:
        if get_ident() == mine:
            found[text] += 1
        return real(text)

    with _ONE, ExitStack() as patches:
        for name, module in list(sys.modules.items()):
            if name.startswith("odfbuild.") and getattr(module, "read", None) is real:
                patches.enter_context(patch.object(module, "read", read))
        yield found
