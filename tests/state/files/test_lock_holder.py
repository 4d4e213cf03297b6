"""Who holds a lock is known on this machine also where they did not note it."""

import getpass
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from odfbuild.odf.refs import DatasetAlias
from odfbuild.state.files.lock import LockedError, locked
from odfbuild.state.files.lock_holder import lock_process
from odfbuild.state.lease import BusyError, Worker, holder_text, take_lease

SRC = DatasetAlias.parse("src")
ME = Worker(user="u", host="h", pid=1, since="s", command="apply")
HOLD = """
import fcntl, os, sys
opened = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(opened, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held(path: Path, *arguments: str) -> Iterator[int]:
    """Hold a lock in another process, and give its number."""
    line = [sys.executable, "-c", HOLD, str(path), *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(line, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process.pid
        process.stdin.close()


def test_the_kernel_tells_user_machine_process_and_start(tmp_path: Path) -> None:
    with held(tmp_path) as pid:
        found = lock_process(tmp_path)
        assert found is not None
        assert (found.pid, found.host) == (pid, socket.gethostname())
        assert found.user == getpass.getuser() or os.getuid() == 0
        began = datetime.fromisoformat(found.since)
        assert abs(datetime.now(UTC) - began) < timedelta(hours=1)
        assert str(found).startswith("a program of ")
    assert lock_process(tmp_path) is None
    assert lock_process(tmp_path / "not there") is None


def test_a_process_of_ours_is_called_by_its_command(tmp_path: Path) -> None:
    with held(tmp_path, "/usr/bin/odfbuild", "--quiet", "apply", "--yes"):
        assert str(lock_process(tmp_path)).startswith("odfbuild apply of ")


def test_a_locked_folder_without_a_note_says_who_has_it(tmp_path: Path) -> None:
    note = tmp_path / "note"
    with (
        held(tmp_path) as pid,
        pytest.raises(LockedError) as caught,
        locked(tmp_path, timeout=0, note=note),
    ):
        pass
    assert f"(process {pid}) since " in caught.value.what


def test_a_lease_without_a_note_says_who_has_it(tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "leases"
    folder.mkdir(parents=True)
    (folder / "src").touch()
    with held(folder / "src", "/usr/bin/odfbuild", "run") as pid:
        lease, busy = take_lease(tmp_path, ME, written=[SRC], waits=False)
        lease.release()
    assert "odfbuild run of " in holder_text(busy[SRC])
    assert f"(process {pid})" in BusyError(busy).what


def test_who_waits_for_one_name_has_noted_the_others(tmp_path: Path) -> None:
    seen = []
    other = DatasetAlias.parse("a")
    of_src = take_lease(tmp_path, ME, written=[SRC], waits=False)[0]

    def look(_: float) -> None:
        busy = take_lease(tmp_path, ME, written=[other], waits=False)[1]
        seen.append(busy[other])
        of_src.release()

    take_lease(tmp_path, ME, written=[other, SRC], pause=look)[0].release()
    assert seen == [ME]
