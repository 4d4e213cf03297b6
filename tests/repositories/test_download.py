"""Downloads: works side by side, and files that go to disk while the rest of them comes."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from odfbuild.odf.identity import Multihash, sha3_256
from odfbuild.repositories import download as downloads
from odfbuild.repositories.download import download, each_of
from odfbuild.repositories.protocol import ObjectFile
from odfbuild.repositories.transports.simple import SimpleSource
from odfbuild.state.files.disk import start_writing_out

CONTENT = random.Random(1).randbytes(300_001)
FILE = ObjectFile("data", sha3_256(CONTENT), len(CONTENT))
PIECE = 1_000


class OneFile:
    """Gives one file in pieces."""

    place = "memory"

    def get(self, path: str, most: int) -> bytes | None:
        return None

    @contextmanager
    def open(self, path: str, start: int) -> Iterator[Iterator[bytes]]:
        yield (CONTENT[at : at + PIECE] for at in range(start, len(CONTENT), PIECE))


@pytest.mark.parametrize("had", [0, 150_500], ids=["new", "goes on"])
def test_all_that_comes_of_a_large_file_is_on_its_way_to_disk(
    had: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts: list[tuple[int, int]] = []

    def noted(descriptor: int, start: int, length: int) -> None:
        start_writing_out(descriptor, start, length)
        assert path.stat().st_size >= start + length
        parts.append((start, start + length))

    monkeypatch.setattr(downloads, "_WRITE_OUT", 40_000)
    monkeypatch.setattr(downloads, "start_writing_out", noted)
    path = tmp_path / "data" / str(FILE.hash)
    path.parent.mkdir()
    path.write_bytes(CONTENT[:had])
    download(SimpleSource(OneFile()), [FILE], tmp_path, lambda _: None, parallel=1)
    assert path.read_bytes() == CONTENT
    starts, ends = zip(*parts, strict=True)
    assert starts == (had, *ends[:-1])
    assert ends[-1] == len(CONTENT)
    assert len(parts) == 1 + (len(CONTENT) - had) // 40_000


@pytest.mark.parametrize("parallel", [1, 3])
@pytest.mark.parametrize("count", [0, 1, 2, 50])
def test_every_item_is_worked_on_once(count: int, parallel: int) -> None:
    done: list[int] = []
    each_of(iter(range(count)), done.append, parallel=parallel)
    assert sorted(done) == list(range(count))


@pytest.mark.parametrize("parallel", [1, 3])
@pytest.mark.parametrize("at", [0, 1, 2, 10])
def test_items_that_fail_end_the_works_and_say_why(at: int, parallel: int) -> None:
    done: list[int] = []

    def items() -> Iterator[int]:
        yield from range(at)
        raise LookupError

    with pytest.raises(LookupError):
        each_of(items(), done.append, parallel=parallel)
    assert len(done) in ({at} if at >= parallel else {0, at})


def test_items_are_taken_as_works_end() -> None:
    taken: list[int] = []
    done: list[Multihash | int] = []

    def items() -> Iterator[int]:
        for number in range(50):
            assert len(taken) <= len(done) + 3
            taken.append(number)
            yield number

    each_of(items(), done.append, parallel=3)
    assert len(done) == 50
