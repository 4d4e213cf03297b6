"""Start of a container that ends with the program that started it, itself a program.

    container_keeper.py RUNTIME NAME ARGUMENT...

It runs `RUNTIME run --rm --name=NAME ARGUMENT...` and exits with its code.  If its standard input
ends first, the program that started it was killed: it then removes the container, which would
otherwise run on.

It imports nothing of the package, so that it starts quickly.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

_PAUSE = 0.3
_ATTEMPTS = 40
_SIGNALS = 128


def main(runtime: str, name: str, arguments: Sequence[str]) -> int:
    """Run the container and return its exit code."""
    command = [runtime, "run", "--rm", f"--name={name}", *arguments]
    abandoned = threading.Event()
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as process:
        threading.Thread(target=_watch, args=(process, abandoned), daemon=True).start()
        code = process.wait()
    if abandoned.is_set():
        _remove(runtime, name)
    return code if code >= 0 else _SIGNALS - code


def _watch(process: "subprocess.Popen[bytes]", abandoned: threading.Event) -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    abandoned.set()
    process.kill()


def _remove(runtime: str, name: str) -> None:
    """Remove a container, also one that is only being created."""
    absent = 0
    for _ in range(_ATTEMPTS):
        for command in (["kill", name], ["rm", "--force", name]):
            _run([runtime, *command])
        absent = absent + 1 if _run([runtime, "inspect", name]) else 0
        if absent > 1:
            break
        time.sleep(_PAUSE)


def _run(command: Sequence[str]) -> int:
    null = subprocess.DEVNULL
    return subprocess.run(command, stdin=null, stdout=null, stderr=null, check=False).returncode


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
    except OSError as error:
        sys.exit(f"{sys.argv[1]}: {error.strerror}")
