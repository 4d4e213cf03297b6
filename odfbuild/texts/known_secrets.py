"""Known credentials, which are removed from every text that quotes others.

Those of a source are known while it is read, to its thread (`odfbuild.texts.redaction.hiding`);
those of repositories from when they are read on, to the whole process (`keep_hidden` there).  This
module is what every error looks at, so it is small.
"""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import field
from typing import Final

from odfbuild.values import dataclass

BLANKED: ContextVar[Callable[[str], str] | None] = ContextVar("known_secrets", default=None)
"""What returns a text without the credentials of a source, None if there are none."""


@dataclass(slots=True)
class KeptSecrets:
    """Credentials that are blanked until the process ends, in every thread."""

    secrets: frozenset[str] = frozenset()
    blanked: Callable[[str], str] | None = field(default=None, repr=False)

    def hidden(self, text: str) -> str:
        """Return a text without them."""
        return text if self.blanked is None else self.blanked(text)


KNOWN_SECRETS: Final = KeptSecrets()


def hidden(text: str) -> str:
    """Return a text without the credentials that are known now."""
    blanked = BLANKED.get()
    return KNOWN_SECRETS.hidden(text if blanked is None else blanked(text))
