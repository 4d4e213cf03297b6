"""Start of a container that ends with the program that started it, itself a program.

    container_keeper.py RUNTIME NAME ARGUMENT...

It runs `RUNTIME run --rm --name=NAME ARGUMENT...` and exits with its code.  If its standard input
ends first, the program that started it has no more use for the container, or was killed: it then
removes the container, which would otherwise run on, and exits with another code than 0.

It imports nothing of the package, so that it starts quickly.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence

_PAUSE = 0.3
_ATTEMPTS = 200
_SIGNALS = 128
_ABANDONED = threading.Event()  # the program that started this one has no use for it


def main(runtime: str, name: str, arguments: Sequence[str]) -> int:
    """Run the container and return its exit code."""
    command = [runtime, "run", "--rm", f"--name={name}", *arguments]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as process:
        watched = threading.Thread(target=_watch, args=(process, runtime, name), daemon=True)
        watched.start()
        code = process.wait()
        if _ABANDONED.is_set():
            watched.join()
            return code if code > 0 else _SIGNALS + signal.SIGKILL  # whatever it said, it was cut
    return code if code >= 0 else _SIGNALS - code


def _watch(process: "subprocess.Popen[bytes]", runtime: str, name: str) -> None:
    """Remove the container once standard input ends, also one that is only being created.

    The runtime is not killed while it creates one, as parts of that would be left, and a daemon
    would go on.
    """
    while os.read(sys.stdin.fileno(), 1):
        pass
    _ABANDONED.set()
    for _ in range(_ATTEMPTS):
        _run([runtime, "kill", name])
        try:
            process.wait(_PAUSE)
        except subprocess.TimeoutExpired:
            continue
        break
    process.kill()
    _run([runtime, "rm", "--force", name])


def _run(command: Sequence[str]) -> int:
    null = subprocess.DEVNULL
    return subprocess.run(command, stdin=null, stdout=null, stderr=null, check=False).returncode


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
    except OSError as error:
        sys.exit(f"{sys.argv[1]}: {error.strerror}")
