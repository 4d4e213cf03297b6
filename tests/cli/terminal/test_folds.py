"""Folds of long lines: nothing is lost, nothing is wider, and the text goes on below itself."""

import fcntl
import os
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.cli.terminal.console import wide
from odfbuild.cli.terminal.folds import fold
from tests.serve.live.projects import build, files_of_a_day

LINES = st.lists(
    st.text(st.sampled_from("ab. \x1b日"), max_size=200).map(
        lambda t: t.replace("\x1b", "\x1b[1m")
    ),
    max_size=5,
)


@given(LINES, st.integers(40, 200))
def test_words_and_their_order_stay(lines: list[str], width: int) -> None:
    text = "\n".join(lines)
    found = fold(text, width)
    assert found.split() == text.split()
    for line in found.split("\n"):
        plain = re.sub(r"\x1b\[[0-9;]*m", "", line)
        assert wide(plain) <= width or line in lines or len(plain.split()) == 1 or "  " in plain


def test_a_text_goes_on_below_itself() -> None:
    text = "      ingest     1 new file: a.csv; " + "x" * 30 + " end"
    assert fold(text, 50) == (
        "      ingest     1 new file: a.csv;\n                 " + "x" * 30 + "\n"
        "                 end"
    )
    code = "                 12 |         - fee DECIMAL(18,2), and more of it"
    assert fold(code, 40) == code


def in_terminal(width: int, folder: Path, *words: str) -> str:
    """Return what a command writes to a terminal of a width."""
    reads, writes = os.openpty()
    fcntl.ioctl(writes, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    environment = {name: text for name, text in os.environ.items() if name not in ("COLUMNS", "CI")}
    program = "from odfbuild.cli.main import program; program()"
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", program, *words],
        cwd=folder, stdin=writes, stdout=writes, stderr=writes, env=environment,
    )  # fmt: skip
    os.close(writes)
    found = b""
    try:
        while piece := os.read(reads, 1 << 16):
            found += piece
    except OSError:  # the other end is closed
        pass
    os.close(reads)
    process.wait()
    return found.decode()


@pytest.mark.parametrize("width", [80, 120, 200])
def test_a_plan_fits_the_terminal(tmp_path_factory: pytest.TempPathFactory, width: int) -> None:
    folder = tmp_path_factory.mktemp("wide")
    for day in range(1, 8):
        files_of_a_day(folder, day, rows=2)
        (folder / "data" / f"{day}.csv").rename(folder / "data" / f"a-long-name-of-day-{day}.csv")
    build(folder, "nothing")
    said = in_terminal(width, folder, "plan")
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", said).replace("\r", "").split("\n")
    assert any("new files" in line for line in lines)
    assert max(map(len, lines)) <= width
