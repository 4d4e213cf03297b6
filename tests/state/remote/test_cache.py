"""The cache of a user: checked on the way in, bounded, shared, not emptied under a reader."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from odfbuild.odf.identity import Multihash, sha3_256
from odfbuild.state.chain.objects import CorruptObjectError
from odfbuild.state.remote.cache import CacheSizeError, ObjectCache, user_cache

DAY = 86_400


def put(cache: ObjectCache, text: bytes) -> Multihash:
    hash = sha3_256(text)
    cache.bring(hash, [text], "the store")
    return hash


def used(folder: Path, hash: Multihash, *, days_ago: float) -> None:
    at = time.time() - days_ago * DAY
    os.utime(folder / "used" / str(hash), (at, at))


def freed(folder: Path) -> int:
    """Return what a process frees that allows itself ten bytes, and ends."""
    cache = ObjectCache(folder, 10)
    found = cache.tidy()
    cache.close()
    return found


def test_bytes_that_are_not_what_their_name_says_are_not_kept(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path, 1 << 20)
    with pytest.raises(CorruptObjectError, match="the store"):
        cache.bring(sha3_256(b"right"), [b"wr", b"ong"], "the store")
    assert cache.find(sha3_256(b"right")) is None
    assert not [each for each in (tmp_path / "files").rglob("*") if each.is_file()]


def test_a_block_that_was_damaged_is_none(tmp_path: Path) -> None:
    cache, hash = ObjectCache(tmp_path, 1 << 20), sha3_256(b"block")
    cache.put_block(hash, b"block")
    assert cache.block(hash) == b"block"
    (path,) = (each for each in (tmp_path / "blocks").rglob("f1620*"))
    path.write_bytes(b"blick")
    assert cache.block(hash) is None


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path, 250)
    first, second, third = (put(cache, bytes([n]) * 100) for n in range(3))
    for hash, days in ((first, 1), (second, 3), (third, 2)):
        used(tmp_path, hash, days_ago=days)
    cache.close()
    assert ObjectCache(tmp_path, 250).tidy() == 100
    kept = {hash for hash in (first, second, third) if ObjectCache(tmp_path, 250).find(hash)}
    assert kept == {first, third}


def test_what_another_process_may_read_stays_for_a_day(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path, 1 << 20)
    old, new = put(cache, b"o" * 100), put(cache, b"n" * 100)
    used(tmp_path, old, days_ago=2)
    cache.close()
    code = (
        "import sys; from pathlib import Path; from odfbuild.odf.identity import Multihash\n"
        "from odfbuild.state.remote.cache import ObjectCache\n"
        "cache = ObjectCache(Path(sys.argv[1]), 1 << 20)\n"
        "print(cache.find(Multihash.parse(sys.argv[2])), flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path), str(new)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as reader:  # fmt: skip
        assert reader.stdout is not None
        path = Path(reader.stdout.readline().strip())
        assert freed(tmp_path) == 100
        assert path.is_file()
        assert not cache.place(old).exists()
        reader.communicate("")
    assert freed(tmp_path) == 100
    assert not path.exists()


def test_it_is_in_the_folder_of_the_user_and_as_large_as_they_say(tmp_path: Path) -> None:
    cache = user_cache({"XDG_CACHE_HOME": str(tmp_path), "ODFBUILD_CACHE_SIZE": "1k"})
    assert cache.place(sha3_256(b"a")).is_relative_to(tmp_path / "odfbuild" / "objects" / "files")
    with pytest.raises(CacheSizeError, match="plenty"):
        user_cache({"XDG_CACHE_HOME": str(tmp_path), "ODFBUILD_CACHE_SIZE": "plenty"})
