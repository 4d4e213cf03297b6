"""Logs of the libraries that speak HTTP: silenced, as they would name addresses and headers."""

import logging
from typing import Final

_LIBRARIES: Final = ("httpx", "httpcore", "websockets.client")


def silence_clients() -> None:
    """Keep the libraries from logging what they ask for, whatever level a program logs at.

    Nor do they log failures, which would be a traceback on the terminal: they are raised, too.
    """
    for name in _LIBRARIES:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
