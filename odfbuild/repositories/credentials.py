"""Tokens of servers: from the environment, or a file that its owner alone can read.

    ODFBUILD_TOKEN_<REPOSITORY>     such as ODFBUILD_TOKEN_MY_HUB for `my-hub`
    ~/.config/odfbuild/tokens       a line for each server: its origin, a space, and the token
                                    https://hub.example.org odfb_...

A token of the file goes to the origin that it is beside, whatever a repository is called.  No
project holds one, and none is printed: from when one is read on, no text of this process has it.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from odfbuild.errors import StateError
from odfbuild.host.files import read_regular
from odfbuild.host.user_folders import config_folder
from odfbuild.repositories.addresses import Origin, origin_of
from odfbuild.texts.redaction import keep_hidden

FILE: Final = "tokens"
_MOST: Final = 1 << 20
_LINE: Final = re.compile(r"(https?://\S+)\s+(\S.*)")
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
_OTHER: Final = re.compile(r"[^A-Za-z0-9]+")


class TokenFileError(StateError):
    """The token file cannot be used."""

    code = "token-file"


class InvalidTokenVariableError(StateError):
    """An environment variable does not hold a valid token."""

    code = "token-variable"

    def __init__(self, variable: str, why: str) -> None:
        super().__init__(
            what=f"{variable} is not a token: it contains {why}",
            why="a token is sent in an HTTP header, which may only have printable ASCII characters",
            fix="set it to the token only: one line, without quotes or other words",
        )


def token_for(url: str, repository: str | None, env: Mapping[str, str] = os.environ) -> str | None:
    """Return the token for a URL over HTTP, None if there is none.

    Raises InvalidTokenVariableError and TokenFileError.
    """
    if repository is not None and (token := env.get(variable_of(repository), "").strip()):
        keep_hidden(token, *token.split())
        if (why := _wrong_character(token)) is not None:
            raise InvalidTokenVariableError(variable_of(repository), why)
        return token
    path, origin = token_file(env), origin_of(url)
    found = None if path is None or origin is None else _read(path).get(origin)
    if found is not None:
        keep_hidden(found)
    return found


def way_to_give(url: str, repository: str | None) -> str:
    """Say where a token for a URL over HTTP is looked for."""
    origin = origin_of(url)
    line = f"'{origin} TOKEN' as a line of {token_file() or FILE}"
    variable = None if not repository else variable_of(repository)
    return line if variable is None else f"set {variable}, or have {line}"


def variable_of(repository: str) -> str:
    """Return the variable that holds the token of a repository."""
    return f"ODFBUILD_TOKEN_{_OTHER.sub('_', repository).upper()}"


def token_file(env: Mapping[str, str] = os.environ) -> Path | None:
    """Return where the file of tokens is, be it there or not."""
    folder = config_folder(env)
    return None if folder is None else folder / FILE


def _read(path: Path) -> Mapping[Origin, str]:
    """Return the tokens of a file by origin."""
    try:
        data = read_regular(path, _MOST)
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise _refusal(path, (error.strerror or str(error)).lower()) from None
    if found.st_mode & 0o077:
        raise _refusal(path, f"others may use it (mode {found.st_mode & 0o777:o})")
    tokens: dict[Origin, str] = {}
    for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        said = _LINE.fullmatch(text)
        origin = None if said is None else origin_of(said[1])
        if said is None or origin is None:
            raise _refusal(path, f"line {number} is not an origin and a token")
        if (why := _wrong_character(said[2])) is not None:
            raise _refusal(path, f"the token of line {number} contains {why}")
        tokens[origin] = said[2]
    return tokens


def _wrong_character(token: str) -> str | None:
    """Say what a token has in it that none has, but not which; None if nothing."""
    if _TOKEN.fullmatch(token):
        return None
    if set(token) & set("\r\n"):
        return "a line end"
    if any(each.isspace() for each in token):
        return "a space"
    return "a control character" if token.isascii() else "a character that is not ASCII"


def _refusal(path: Path, why: str) -> TokenFileError:
    return TokenFileError(
        what=f"tokens cannot be read from {path}: {why}",
        why="whoever has a token can read and write what you can",
        fix=f"chmod 600 {path}; in each line: https://host, a space, and the token",
    )
