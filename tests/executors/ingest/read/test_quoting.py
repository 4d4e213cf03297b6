"""Where records of CSV end, against a reader that goes byte by byte."""

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.executors.ingest.read import text as quoting
from odfbuild.executors.ingest.read.problems import InvalidSourceError
from odfbuild.executors.ingest.read.text import CsvText, record_blocks, unescaped
from odfbuild.host.files import open_regular
from odfbuild.odf.read_options import Dialect

COMMON = Dialect(separator=",", quote='"', escape=None)


def ends(text: bytes) -> Iterator[int]:
    """Yield where the records of a text end; a CR at its end may be half of an end."""
    is_open, at_start, at = False, True, 0
    while at < len(text):
        char = text[at : at + 1]
        if is_open and text[at : at + 2] == b'""':
            at += 2
            continue
        if char == b'"' and (is_open or at_start):
            is_open = not is_open
        at_start = not is_open and char in b",\r\n"
        at += 1
        if at_start and char != b"," and not (char == b"\r" and at == len(text)):
            yield at


def last_end(text: bytes) -> int:
    return max(ends(text), default=0)


def cut(text: bytes, sizes: list[int]) -> Iterator[bytes]:
    at = 0
    for size in sizes:
        yield text[at : at + size]
        at += size
    yield text[at:]


texts = st.lists(st.sampled_from([b'"', b",", b"\r", b"\n", b"a", b'""', b'"\n'])).map(b"".join)


@given(texts)
def test_a_text_is_cut_after_its_last_record(text: bytes) -> None:
    first, *_ = [*record_blocks([text], COMMON, "x.csv"), b""]
    assert len(first) == (last_end(text) or len(text))


@pytest.mark.parametrize("seed", range(20))
def test_a_long_text_is_cut_after_its_last_record(seed: int) -> None:
    made = random.Random(seed)
    chars = [*(b'"', b",", b"\r", b"\n") * made.randrange(1, 3), *[b"a"] * made.randrange(1, 6)]
    text = b"".join(made.choices(chars, k=20_000))
    for closing in (b"", b'"', b'"\n'):
        first, *_ = [*record_blocks([text + closing], COMMON, "x.csv"), b""]
        assert len(first) == (last_end(text + closing) or len(text + closing))


@given(texts, st.lists(st.integers(0, 9)))
def test_every_block_but_the_last_ends_with_a_record(text: bytes, sizes: list[int]) -> None:
    blocks = list(record_blocks(cut(text, sizes), COMMON, "x.csv"))
    assert b"".join(blocks) == text
    found, at = set(ends(text)), 0
    for block in blocks[:-1]:
        at += len(block)
        assert at in found


def test_a_value_over_many_blocks_is_read_twice_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    find = quoting._record_end(COMMON)

    def counted(text: bytes) -> int:
        read.append(len(text))
        return find(text)

    monkeypatch.setattr(quoting, "_record_end", lambda _: counted)
    value = b'"' + b'a""\n' * 250_000 + b'"\n'
    blocks = [value[at : at + 1000] for at in range(0, len(value), 1000)]
    assert b"".join(record_blocks(blocks, COMMON, "x.csv")) == value
    assert sum(read) <= 3 * len(value)


def test_a_quote_that_is_never_closed_ends_the_reading_early() -> None:
    taken = 0

    def endless() -> Iterator[bytes]:
        nonlocal taken
        yield b'a,"b\n'
        while True:
            taken += 1
            yield b"1,2\n" * (1 << 18)

    with pytest.raises(InvalidSourceError, match="more than 16 MiB"):
        list(record_blocks(endless(), COMMON, "x.csv"))
    assert taken <= 40


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
@pytest.mark.parametrize("first", [b"1,2", b'"1",2'])
def test_the_line_of_a_value_that_is_too_long_is_counted_in_the_text(
    end: bytes, first: bytes
) -> None:
    lines = [first, *[b"1,2"] * 1000, b'3,"' + b"a" * (34 << 20)]
    text = end.join(lines)
    blocks = [text[at : at + 4000] for at in range(0, len(text), 4000)]
    with pytest.raises(InvalidSourceError, match=r"^x\.csv:1002: a value has more than 16 MiB"):
        list(record_blocks(blocks, COMMON, "x.csv", lambda: blocks))


@given(st.text('a",\n\\', max_size=30), st.integers(1, 12))
def test_escapes_count_from_the_first_quote_on(data: str, block: int) -> None:
    dialect = Dialect(separator=",", quote='"', escape="\\")
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path = Path(folder) / "x.csv"
        path.write_text(data, "utf-8")
        patch.setattr(quoting, "BLOCK", block)
        found = b"".join(CsvText(path, "x.csv", "utf-8", dialect).blocks())
    assert found == b"".join(unescaped([data.encode()], dialect, "x.csv"))


def test_a_file_is_read_in_blocks_that_grow_up_to_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(bytes(range(97, 107)) * 15)
    monkeypatch.setattr(quoting, "BLOCK", 10)
    blocks = list(CsvText(path, "x.csv", "utf-8", COMMON).blocks())
    assert [len(each) for each in blocks] == [10, 20, 40, 40, 40]
    assert b"".join(blocks) == path.read_bytes()


def test_a_text_without_quotes_is_not_searched_for_escapes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(b"1,\\n\n" * 1000)
    opened = []

    def noted(each: Path) -> Any:
        opened.append(each)
        return open_regular(each)

    monkeypatch.setattr(quoting, "open_regular", noted)
    dialect = Dialect(separator=",", quote='"', escape="\\")
    assert b"".join(CsvText(path, "x.csv", "utf-8", dialect).blocks()) == path.read_bytes()
    assert opened == [path]
