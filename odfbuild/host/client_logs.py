"""Logs of the libraries that speak HTTP: silenced, as they would name addresses and headers."""

import logging
from typing import Final

_LIBRARIES: Final = ("httpx", "httpcore", "websockets.client")


def silence_clients() -> None:
    """Stop the libraries from logging requests, whatever the log level of the program.

    Failures are not logged either: they are raised, and a traceback would go to the terminal.
    """
    for name in _LIBRARIES:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
