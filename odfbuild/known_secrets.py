"""The credentials that are known while a source is read: no text that is made meanwhile has them.

`odfbuild.redaction.hiding` says which; this module is what every error looks at, so it is small.
"""

from collections.abc import Callable
from contextvars import ContextVar

BLANKED: ContextVar[Callable[[str], str] | None] = ContextVar("known_secrets", default=None)
"""What returns a text without the credentials that are known now, None if there are none."""


def hidden(text: str) -> str:
    """Return a text without the credentials that are known now."""
    blanked = BLANKED.get()
    return text if blanked is None else blanked(text)
