"""The command, as a script and as `python -m odfbuild`, from before its modules are loaded.

That takes a while, and an interrupt meanwhile ends it in one line.
"""

import os
import signal
from types import FrameType


def program() -> None:
    """Be the program, as `odfbuild.cli.main` is."""
    is_usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not as under nohup
    if is_usual:
        signal.signal(signal.SIGINT, _end)
    from odfbuild.cli.main import program as loaded

    if is_usual:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    loaded()


def _end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - as Python calls it
    os.write(2, b"odfbuild: interrupted; no step is left half done\n")
    os._exit(128 + number)


if __name__ == "__main__":
    program()
