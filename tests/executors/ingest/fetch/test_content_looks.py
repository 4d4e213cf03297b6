"""Contents of large files: hashed while they are read; what is written meanwhile is noticed."""

import hashlib
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

import pytest

from odfbuild.executors.ingest.fetch import late_files
from odfbuild.executors.ingest.fetch.late_files import _content_look
from tests.support.effort import examples

OLD = 10**18  # a time of a file, in ns
Change = Callable[[Path, random.Random], None]


def test_a_file_that_was_written_meanwhile_has_the_digest_of_no_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_files, "_QUICK", 10)
    changes: list[Change] = [_nothing, _appended, _rewritten, _set_back, _replaced, _removed]
    for seed in range(examples(40, 400)):
        chance = random.Random(seed)
        path = tmp_path / f"{seed}.csv"
        path.write_bytes(chance.randbytes(chance.choice([11, 1000, (1 << 20) + 1])))
        digests = {_digest_of(path)}
        os.utime(path, ns=(OLD, OLD))
        change = chance.choice(changes)
        sleep(0.02)  # so that the clock of the file system goes on
        look = _content_look(path, path.stat())
        change(path, chance)
        if path.exists():
            digests.add(_digest_of(path))
        found = look()
        assert (found in digests) == (change is _nothing), (seed, change)


def test_a_file_that_may_keep_its_time_is_hashed_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_files, "_QUICK", 10)
    monkeypatch.setattr(late_files, "_TICK", 1 << 62)
    path = tmp_path / "young.csv"
    path.write_bytes(b"one" * 10)
    before = _digest_of(path)
    look = _content_look(path, path.stat())
    path.write_bytes(b"two" * 10)
    assert look() == before


def test_no_thread_is_left_of_a_look_that_nobody_waits_for(tmp_path: Path) -> None:
    path = _endless(tmp_path)
    look = _content_look(path, path.stat())
    assert _hashing()
    del look
    end = monotonic() + 60
    while _hashing() and monotonic() < end:
        sleep(0.01)
    assert not _hashing()


def test_a_process_ends_although_a_file_is_being_hashed(tmp_path: Path) -> None:
    path = _endless(tmp_path)
    text = (
        "import sys; from pathlib import Path; "
        "from odfbuild.executors.ingest.fetch.late_files import _content_look; "
        "path = Path(sys.argv[1]); look = _content_look(path, path.stat()); raise SystemExit(3)"
    )
    made = subprocess.run([sys.executable, "-P", "-c", text, str(path)], timeout=120, check=False)
    assert made.returncode == 3


def _endless(folder: Path) -> Path:
    path = folder / "sparse.csv"
    path.touch()
    os.truncate(path, 4 << 40)
    os.utime(path, ns=(OLD, OLD))
    return path


def _hashing() -> bool:
    return any(thread.name == "digest" for thread in threading.enumerate())


def _digest_of(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()


def _nothing(_: Path, __: random.Random) -> None:
    pass


def _appended(path: Path, chance: random.Random) -> None:
    with path.open("ab") as file:
        file.write(chance.randbytes(5))


def _rewritten(path: Path, chance: random.Random) -> None:
    path.write_bytes(chance.randbytes(path.stat().st_size))


def _set_back(path: Path, chance: random.Random) -> None:
    _rewritten(path, chance)
    os.utime(path, ns=(OLD, OLD))


def _replaced(path: Path, chance: random.Random) -> None:
    new = path.with_suffix(".new")
    new.write_bytes(chance.randbytes(path.stat().st_size))
    os.utime(new, ns=(OLD, OLD))
    new.rename(path)


def _removed(path: Path, _: random.Random) -> None:
    path.unlink()
