"""Tokens of repositories in tests: put where they are looked for, and looked for in texts."""

from pathlib import Path
from urllib.parse import quote

import pytest

from odfbuild.repositories import credentials
from odfbuild.repositories.credentials import variable_of

__all__ = ["is_free_of", "keep"]


def is_free_of(text: str, token: str) -> bool:
    """Say whether no part of a token that somebody could use is in a text."""
    parts = [each for each in token.split() if len(each) >= 6]
    escaped = [quote(each.encode("utf-8", "surrogateescape"), "") for each in parts]
    return not any(each in text for each in (*parts, *escaped))


def keep(folder: Path, env: pytest.MonkeyPatch, url: str, token: str, place: str) -> None:
    """Put a token where it is looked for: the variable of `srv`, or the file of tokens."""
    env.setenv("XDG_CONFIG_HOME", str(folder))
    env.delenv(variable_of("srv"), raising=False)
    path = folder / "odfbuild" / credentials.FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    if place == "variable":
        env.setenv(variable_of("srv"), token)
    else:
        path.touch(0o600)
        origin = url.removeprefix("odf+")
        path.write_bytes(f"{origin} {token}\n".encode("utf-8", "surrogateescape"))
