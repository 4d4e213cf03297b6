"""Commands of Pipe steps: no shell, no end of time, no lost complaint."""

import fcntl
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from odfbuild.executors.data.frames import Frame
from odfbuild.executors.engine.protocol import IngestRequest
from odfbuild.executors.ingest.prepare import PipeError, Surroundings, prepare
from odfbuild.executors.process.interrupt import StoppedError, stop, stoppable
from odfbuild.executors.process.limits import BadLimitError
from odfbuild.executors.process.unpackers import unpacker_of
from odfbuild.odf.events import DatasetKind, PrepStepPipe, SetPollingSource
from tests.planner.builders import declare
from tests.support.engines import FakeEngine
from tests.support.workshop import Workshop, ledger

LINES = b"b,2\na,1\n"


def piped(
    folder: Path, *command: str, data: bytes = LINES, env: dict[str, str] | None = None
) -> bytes:
    source = folder / "data.csv"
    source.write_bytes(data)
    staging = folder / "staging"
    staging.mkdir(exist_ok=True)
    step = PrepStepPipe(command=command)
    around = Surroundings(folder, env or {})
    return prepare([step], source, staging, name="data.csv", around=around).read_bytes()


def python(*lines: str) -> Sequence[str]:
    return (sys.executable, "-c", "\n".join(["import os, sys, time", *lines]))


def failed(folder: Path, *command: str, env: dict[str, str] | None = None) -> PipeError:
    with pytest.raises(PipeError) as caught:
        piped(folder, *command, env=env)
    assert not list((folder / "staging").iterdir())
    assert "Traceback" not in caught.value.what
    return caught.value


def test_a_command_reads_the_file_and_what_it_prints_is_the_result(tmp_path: Path) -> None:
    assert piped(tmp_path, "sort") == b"a,1\nb,2\n"
    assert piped(tmp_path, "cat", data=b"") == b""


def test_commands_follow_each_other(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_bytes(LINES)
    steps = [PrepStepPipe(command=("sort",)), PrepStepPipe(command=("sed", "s/,/;/"))]
    assert prepare(steps, tmp_path / "data.csv", tmp_path).read_bytes() == b"a;1\nb;2\n"
    assert (tmp_path / "data.csv").read_bytes() == LINES


def test_there_is_no_shell(tmp_path: Path) -> None:
    found = piped(tmp_path, "echo", "$HOME", "*.csv", "`id`", "a  b", "| cat > stolen", "")
    assert found == b"$HOME *.csv `id` a  b | cat > stolen \n"
    assert not (tmp_path / "stolen").exists()


def test_a_command_runs_in_the_project_and_sees_the_environment(tmp_path: Path) -> None:
    (tmp_path / "fix.sh").write_text("#!/bin/sh\necho $GREETING\n")
    (tmp_path / "fix.sh").chmod(0o755)
    assert piped(tmp_path, "./fix.sh", env={"GREETING": "hi"}) == b"hi\n"


def test_much_goes_through_on_all_streams(tmp_path: Path) -> None:
    data = b"x" * 999 + b"\n"
    noisy = python(
        "for line in sys.stdin.buffer:",
        "    sys.stderr.buffer.write(line)",
        "    sys.stdout.buffer.write(line + line)",
    )
    assert piped(tmp_path, *noisy, data=data * 5000) == data * 10_000


def test_a_command_may_stop_reading_when_it_knows_enough(tmp_path: Path) -> None:
    assert piped(tmp_path, "head", "-n", "1", data=LINES * 500_000) == b"b,2\n"


def test_a_failure_tells_the_code_and_the_last_words(tmp_path: Path) -> None:
    error = failed(tmp_path, *python("print('half')", "sys.exit('line 3: no comma')"))
    assert error.what.endswith("ended with exit code 1 on data.csv")
    assert error.why == "it printed: line 3: no comma"
    assert error.said == b"line 3: no comma\n"
    assert failed(tmp_path, "false").why == "it printed nothing on standard error"


def test_last_words_are_bounded_and_printable(tmp_path: Path) -> None:
    long = python(
        "for i in range(99_999): print(i, chr(27), 'x' * 20, file=sys.stderr)", "sys.exit(7)"
    )
    error = failed(tmp_path, *long)
    assert error.why.isprintable()
    assert error.why.endswith("x" * 20)
    assert len(error.why) < 1000
    assert len(error.said) == 64 << 10


def test_a_signal_is_called_by_its_name(tmp_path: Path) -> None:
    error = failed(tmp_path, *python("os.kill(os.getpid(), 15)"))
    assert "ended by the signal SIGTERM" in error.what


def test_a_command_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    command = python(
        "import fcntl, subprocess",
        "lock = open('lock', 'w')",
        "fcntl.flock(lock, fcntl.LOCK_EX)",
        "subprocess.Popen(['sleep', '60'], pass_fds=[lock.fileno()])",
        "print('working', file=sys.stderr, flush=True)",
        "time.sleep(60)",
    )
    error = failed(tmp_path, *command, env={"ODFBUILD_PIPE_TIMEOUT": "5"})
    assert error.what.endswith("took more than 5 seconds on data.csv")
    assert error.why == "it printed: working"
    assert "ODFBUILD_PIPE_TIMEOUT" in error.fix
    with (tmp_path / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # free when the last of them is gone


def test_a_command_that_closed_its_output_has_no_more_time_than_others(tmp_path: Path) -> None:
    closing = python("os.close(1)", "os.close(2)", "time.sleep(60)")
    error = failed(tmp_path, *closing, env={"ODFBUILD_PIPE_TIMEOUT": "0.5"})
    assert "took more than 0.5 seconds" in error.what


@pytest.mark.parametrize("text", ["soon", "0", "-1", "nan", "1e9"])
def test_a_limit_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadLimitError, match=f"ODFBUILD_PIPE_TIMEOUT is '{text}'"):
        piped(tmp_path, "cat", env={"ODFBUILD_PIPE_TIMEOUT": text})


def test_commands_can_be_ended_from_another_thread(tmp_path: Path) -> None:
    def give_up() -> None:
        while not (tmp_path / "started").exists():
            time.sleep(0.01)
        stop()

    thread = threading.Thread(target=give_up)
    thread.start()
    with stoppable():
        with pytest.raises(StoppedError):
            piped(tmp_path, *python("open('started', 'w')", "time.sleep(60)"))
        thread.join()


def test_a_command_that_somebody_else_kills_has_failed(tmp_path: Path) -> None:
    error = failed(tmp_path, *python("import os", "os.kill(os.getpid(), 9)"))
    assert "ended by the signal SIGKILL" in error.what


class _Interrupted(FakeEngine):
    """An engine in which somebody presses Ctrl-C, once a command runs elsewhere."""

    def __init__(self, marker: Path) -> None:
        super().__init__()
        self.marker = marker

    def ingest(self, request: IngestRequest) -> Frame:
        while not self.marker.exists():
            time.sleep(0.01)
        raise KeyboardInterrupt


def test_an_interrupt_ends_the_commands_of_all_steps(tmp_path: Path) -> None:
    shop = Workshop(tmp_path, _Interrupted(tmp_path / "started"))
    shop.file("1.csv", "2024-01-01,a,1")
    slow = PrepStepPipe(command=tuple(python("open('started', 'w')", "time.sleep(60)")))
    declared = [ledger("fast"), ledger("slow")]
    source, *rest = declared[1].snapshot.metadata
    assert isinstance(source, SetPollingSource)
    metadata = (replace(source, prepare=(slow,)), *rest)
    declared[1] = declare("slow", DatasetKind.ROOT, metadata)
    with pytest.raises(KeyboardInterrupt):
        shop.apply(declared)
    assert ("ingest:slow", "Interrupted") in shop.watcher.lines


def test_a_program_that_is_not_there_is_told(tmp_path: Path) -> None:
    error = failed(tmp_path, "no-such-program", "-x")
    assert error.what == "`no-such-program -x` cannot be run on data.csv"
    assert error.why == "there is no program 'no-such-program'"
    assert error.fix == "install no-such-program, or correct `command`"


def test_a_whole_command_line_in_one_item_is_recognised(tmp_path: Path) -> None:
    error = failed(tmp_path, "jq -c .[]")
    assert error.fix.endswith("[jq, -c, .[]]")


def test_a_file_that_is_no_program_is_told(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    assert failed(tmp_path, "./text").why == "permission denied"
    (tmp_path / "text").chmod(0o755)
    assert failed(tmp_path, "./text").why == "exec format error"


def test_an_argument_that_no_program_can_have_is_told(tmp_path: Path) -> None:
    assert "null byte" in failed(tmp_path, "cat", "a\0b").why


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("bzip2 -dc", "bzip2"),
        ("bzip2 --decompress --stdout", "bzip2"),
        ("bunzip2", "bzip2"),
        ("xz -d -c", "xz"),
        ("xzcat", "xz"),
        ("zstd -d", "zstd"),
        ("unzstd -c", "zstd"),
        ("zstd", None),
        ("xz -c", None),
        ("xz -dc -T0", None),
        ("zstd -dc data.zst", None),
        ("./xz -dc", None),
        ("jq -c .[]", None),
    ],
)
def test_which_commands_need_no_program(command: str, kind: str | None) -> None:
    assert unpacker_of(command.split()) == kind
