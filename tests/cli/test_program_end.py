"""The end of the program: what is to be done is done, and Python does not take itself apart."""

import subprocess
import sys

import pytest

_PROGRAM = """
import atexit, sys, threading, time
from odfbuild.cli import main

class Kept:
    def __del__(self, say=print):
        say("taken apart", flush=True)

main.kept = Kept()

def work():
    time.sleep(0.3)
    print("worked", flush=True)

def ended(**_):
    {before}
    raise SystemExit({code})

atexit.register(print, "at the end", flush=True)
main.main = ended
main.program()
"""
_WORKS = "threading.Thread(target=work).start()"
_HANGS = "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()"
_ENGINE = "import odfbuild.executors.engine.spark"


@pytest.mark.parametrize(
    ("before", "code", "said"),
    [
        ("pass", 3, []),
        (_WORKS, 4, ["worked", "at the end"]),
        (_HANGS, 4, ["at the end"]),
        (_ENGINE, 0, ["at the end"]),
        ("threading.Thread(target=time.sleep, args=(600,)).start()", 143, ["at the end"]),
    ],
)
def test_the_program_ends_with_its_code_and_without_clearing_memory(
    before: str, code: int, said: list[str]
) -> None:
    text = _PROGRAM.format(before=before, code=code)
    command = [sys.executable, "-P", "-c", text]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout.splitlines(), done.stderr) == (code, said, "")
