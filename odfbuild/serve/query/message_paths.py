"""Messages for callers without paths of the server's machine.

Anything that looks like a path is left out, whatever it names: if only the paths of the workspace
were, a caller who has a path in a query would see in the message whether it is one of these.
"""

import re
from pathlib import Path
from typing import Final

__all__ = ["without_paths"]

_PATH: Final = "PATH"
_BETWEEN: Final = " \t\r\n'\"`,;:()[]{}<>|="
_DIGITS: Final = re.compile(r"[\d/]+")


def without_paths(text: str, root: Path | str | None) -> str:
    """Return a message with PATH for each path, absolute or of more than one folder.

    The characters of `root`, the path of the workspace, are never taken for the end of a path.
    """
    known = set() if root is None else set(str(root))
    between = "".join(each for each in _BETWEEN if each not in known)
    part = f"[^{re.escape(between)}]+" if between else ".+"
    return re.sub(part, lambda found: _PATH if _is_path(found[0]) else found[0], text, flags=re.S)


def _is_path(word: str) -> bool:
    """Tell whether a word is a path; 2031/04/01 is not, and neither is account/name."""
    if word.startswith("/"):
        return word.strip("/") != ""
    return word.count("/") > 1 and _DIGITS.fullmatch(word) is None
