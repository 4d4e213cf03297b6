"""URIs of files as clients write them: RFC 8089, with percent-encoded bytes of names."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

_HERE = ("", "localhost")


def path_of(uri: str) -> Path | None:
    """Return the file of a URI; None if it is not a file of this machine.

    A `;` is a part of a name (RFC 3986, 3.3), `?` and `#` are not, and names are decoded once.
    """
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    path = unquote(parts.path, errors="surrogateescape")
    if parts.scheme != "file" or parts.netloc.lower() not in _HERE or "\0" in path:
        return None
    return Path(os.path.normpath(path)) if path.startswith("/") else None
