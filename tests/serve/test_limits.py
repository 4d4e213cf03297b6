"""Limits of a server: what the page says of them, and what happens at each."""

import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from websockets.sync.client import connect

from odfbuild.host.pace import LEAST_RATE
from odfbuild.repositories.protocol import LARGEST_ATTESTATION
from odfbuild.repositories.smart import messages as m
from odfbuild.repositories.smart.messages import encode
from odfbuild.serve.process.connections import LARGE, LargeMessages
from odfbuild.serve.settings import ServerLimits
from tests.support.servers.datasets import DatasetServer, serving_datasets

PAGE = Path(__file__).parents[2] / "docs" / "serving.md"
LIMITS = ServerLimits()
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "TiB": 1 << 40, "second": 1, "seconds": 1, "hours": 3600}
FIGURES = {
    "pulls, and pushes, at once; of one token or address; connections": (
        LIMITS.transfers,
        LIMITS.of_one_caller,
        LIMITS.connections,
    ),
    "a message of the smart protocol": (LIMITS.frame,),
    f"messages of more than {LARGE >> 20} MiB at once; others wait": (LIMITS.large,),
    "blocks of one transfer": (LIMITS.archive.entries, LIMITS.archive.bytes),
    "a request line with its headers": (LIMITS.head, LIMITS.request),
    "silence within a body, or of a reader": (LIMITS.piece,),
    "the rate of a body": (LEAST_RATE, LIMITS.piece),
    "silence where a message is due": (LIMITS.message,),
    "the files of one push": (LIMITS.objects, LIMITS.upload),
    "an attestation": (LARGEST_ATTESTATION,),
    "the end after SIGTERM; what is cut off then": (LIMITS.stop, LIMITS.farewell),
}


def numbers(text: str) -> tuple[float, ...]:
    """Return the figures of a text, each in bytes or seconds."""
    found = re.findall(r"(\d[\d,]*)(?: (\w+))?", text)
    return tuple(int(number.replace(",", "")) * UNITS.get(unit, 1) for number, unit in found)


def test_the_page_says_every_limit_as_it_is_enforced() -> None:
    rows = re.findall(r"^\| (.+) \| (.+) \|$", PAGE.read_text().split("## Limits")[1], re.M)
    said = {what: numbers(limit) for what, limit in rows if what != "what"}
    assert said == FIGURES
    text = " ".join(PAGE.read_text().split())
    assert f"has {LIMITS.stop:g} seconds to end" in text
    assert f"it waits {['five'][LIMITS.busy != 5]} seconds for a run" in text
    assert LIMITS.kept == 24 * 3600
    assert "Files that were sent wait a day" in text


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DatasetServer]:
    with serving_datasets(tmp_path_factory.mktemp("server")) as found:
        yield found


def answered(server: DatasetServer, request: bytes) -> bytes:
    """Return what is answered to bytes that are sent at once, until the server ends."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as line:
        line.sendall(request)
        found = b""
        while piece := line.recv(9_999):
            found += piece
        return found


HEADS = {
    "a long line": (b"GET /%s HTTP/1.1\r\nhost: h\r\n\r\n" % (b"x" * LIMITS.head), b"431"),
    "many headers": (
        b"GET /info HTTP/1.1\r\nhost: h\r\n%s\r\n" % (b"x-a: 0123456789\r\n" * (LIMITS.head // 8)),
        b"431",
    ),
    "two lengths": (
        b"POST /info HTTP/1.1\r\nhost: h\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n"
        b"0\r\n\r\nGET /info HTTP/1.1\r\nhost: h\r\n\r\n",
        b"400",
    ),
}


@pytest.mark.holds("serving-bounds")
@pytest.mark.parametrize(("request_", "status"), HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("upgrade", [b"", b"connection: upgrade\r\nupgrade: websocket\r\n"])
def test_a_head_that_is_too_long_or_ambiguous_is_refused(
    server: DatasetServer, request_: bytes, status: bytes, upgrade: bytes
) -> None:
    asking = b"sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    head = b"host: h\r\n" + (upgrade + asking if upgrade else b"")
    if upgrade and not request_.startswith(b"GET"):
        request_ = request_.replace(b"POST", b"GET", 1)
    answer = answered(server, request_.replace(b"host: h\r\n", head, 1))
    assert answer.startswith(b"HTTP/1.1 " + status), answer[:100]
    assert answer.count(b"HTTP/1.1 ") == 1


def test_so_many_large_messages_come_at_once_and_others_in_their_turn() -> None:
    room = LargeMessages(2)
    heard: list[str] = []
    for each in "abcde":
        assert room.enter(each, partial(heard.append, each)) == (each in "ab")
    assert room.enter("a", heard.clear)
    room.leave("d")
    room.leave("a")
    assert heard == ["c"]
    room.leave("b")
    room.leave("c")
    assert heard == ["c", "e"]
    assert room.enter("f", heard.clear)


@pytest.mark.holds("serving-bounds")
def test_an_end_amid_large_messages_comes_soon_and_says_no_more_than_lines(tmp_path: Path) -> None:
    payload = b"7" * (20 << 20)
    text = encode(
        m.PushBlocks(new_blocks=m.MetadataBlocksBatch(num_blocks=m.U32(1), payload=payload))
    ).encode()
    plan = m.TransferPlan(
        num_blocks=m.U32(1),
        num_objects=m.U32(0),
        num_records=m.U64(0),
        bytes_in_raw_blocks=m.U64(1),
        bytes_in_raw_objects=m.U64(0),
    )
    with serving_datasets(tmp_path) as server:
        token = server.token("create")
        headers = {"authorization": f"Bearer {token}", m.VERSION_HEADER: m.VERSION}

        def push(number: int) -> None:
            url = f"ws://127.0.0.1:{server.port}/large.n{number}/push"
            try:
                with connect(
                    url, additional_headers=headers, compression=None, max_size=None
                ) as it:
                    it.send(encode(m.PushRequest(transfer_plan=plan)))
                    it.recv(60)
                    it.send(text, text=True)
                    it.recv(60)
            except Exception:
                return

        threads = [threading.Thread(target=push, args=(each,)) for each in range(8)]
        for each in threads:
            each.start()
        time.sleep(3)
        began = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        status = Path(f"/proc/{server.process.pid}/status").read_text()
        assert server.process.wait(60) == 0
        assert time.monotonic() - began < LIMITS.stop + LIMITS.farewell + 15  # of a busy machine
        for each in threads:
            each.join()
    assert int(status.split("VmHWM:")[1].split()[0]) << 10 < 700 << 20
    lines = (tmp_path / "log").read_text().splitlines()
    line = re.compile(r"\d{4}-\d\d-\d\d .* (INFO|WARNING|ERROR) ")
    assert not [each for each in lines if not line.match(each)]
