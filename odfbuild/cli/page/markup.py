"""Markup of pages: texts that stay texts, JSON that no text in it can end."""

import base64
import hashlib
import json
from typing import Any

from odfbuild.cli.terminal.console import printable

_ESCAPES = {
    "<": "\\u003c",
    ">": "\\u003e",
    "&": "\\u0026",
    "\u2028": "\\u2028",
    "\u2029": "\\u2029",
}


def safe_json(data: Any) -> str:
    """Return JSON in which nothing can end the element that it is in, nor a line."""
    text = json.dumps(data, separators=(",", ":"))
    return text.translate({ord(sign): escape for sign, escape in _ESCAPES.items()})


def ascii_text(text: str) -> str:
    """Return markup with all that is not ASCII as references to characters."""
    return text.encode("ascii", "xmlcharrefreplace").decode("ascii")


def shown_lines(text: str) -> str:
    """Return a text of several lines, each of them printable."""
    return "\n".join(map(printable, text.expandtabs(4).strip("\n").split("\n")))


def digest_of(text: str) -> str:
    """Return the source expression by which a policy allows a script or a style."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
