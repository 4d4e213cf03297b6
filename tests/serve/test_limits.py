"""Limits of a server: what the page says of them, and what happens at each."""

import re
import select
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.sync.client import ClientConnection, connect

from odfbuild.host.pace import LEAST_RATE
from odfbuild.host.protobuf import MOST_VALUES
from odfbuild.repositories.protocol import LARGEST_ATTESTATION
from odfbuild.repositories.smart import messages as m
from odfbuild.repositories.smart.client import SmartDataset
from odfbuild.repositories.smart.messages import encode
from odfbuild.serve.flight.server import MESSAGE
from odfbuild.serve.limits import ServerLimits
from odfbuild.serve.process.connections import LARGE, LARGE_RATE, LargeMessages
from odfbuild.state.remote.view.workspace import LARGEST_RUN
from odfbuild.state.workspace import Workspace
from tests.serve.copies import made, push
from tests.support.servers.datasets import DatasetServer, serving_datasets

PAGE = Path(__file__).parents[2] / "docs" / "serving.md"
LIMITS = ServerLimits()
UNITS = {
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
    "second": 1,
    "seconds": 1,
    "hours": 3600,
}
FIGURES = {
    "simultaneous pulls, and pushes; of one token or address; connections": (
        LIMITS.transfers,
        LIMITS.of_one_caller,
        LIMITS.connections,
    ),
    "a message of the smart protocol": (LIMITS.frame,),
    f"messages of more than {LARGE >> 20} MiB at once; others wait": (LIMITS.large,),
    "the rate of such a message, while others wait": (LARGE_RATE, LIMITS.turn),
    "blocks of one transfer": (LIMITS.archive.entries, LIMITS.archive.bytes),
    "a request line with its headers": (LIMITS.head, LIMITS.request),
    "silence within a body, or of a reader": (LIMITS.piece,),
    "the rate of a body": (LEAST_RATE, LIMITS.piece),
    "silence when a message is due": (LIMITS.message,),
    "the files of one push": (LIMITS.objects, LIMITS.upload),
    "an attestation": (LARGEST_ATTESTATION,),
    "questions at once; others wait": (LIMITS.questions, LIMITS.turn),
    "a question; its time and memory": (LIMITS.question, LIMITS.answer, LIMITS.memory),
    "the rows of an answer; its size": (LIMITS.rows, LIMITS.output),
    "a file that is searched for the lines of a row; its rows": (LIMITS.file, LIMITS.file_rows),
    "the blocks of one page of a history, or the events of one of a run": (LIMITS.page,),
    "the record of a run in a store; a larger one counts as damaged": (LARGEST_RUN,),
    "a message of FlightSQL; its values": (MESSAGE * LIMITS.question, LIMITS.request, MOST_VALUES),
    "calls of FlightSQL at once; answers in transit, of one token or address": (
        LIMITS.calls,
        LIMITS.transfers,
        LIMITS.of_one_caller,
    ),
    "messages of FlightSQL in arrival, of one token or address; others wait": (
        LIMITS.of_one_caller,
    ),
    "silence of a reader of FlightSQL": (LIMITS.piece,),
    "the age of what was read of a store; requests for heads of all datasets; "
    "threads that wait for a store": (LIMITS.age, LIMITS.heads, LIMITS.waits),
    "the end after SIGTERM; the cut-off": (LIMITS.stop, LIMITS.farewell),
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
    assert f"have {LIMITS.stop:g} seconds to end" in text
    assert f"it waits {['five'][LIMITS.busy != 5]} seconds for a run" in text
    assert LIMITS.kept == 24 * 3600
    assert "Received files are kept for a day" in text


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


_HASTY = {"piece": 2.0, "turn": 2.0}


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DatasetServer]:
    """Serve with less patience: 2 seconds for a piece of a body, and for a turn."""
    with serving_datasets(tmp_path_factory.mktemp("hasty"), limits=_HASTY) as found:
        yield found


@pytest.mark.holds("serving-bounds")
def test_a_body_that_drips_or_stops_is_given_up_with_408_and_one_that_comes_is_not(
    hasty: DatasetServer, tmp_path: Path
) -> None:
    """Each piece keeps the limit of silence; it is the rate that does not suffice."""
    token = hasty.token("read", "write", "create")
    dataset = made(Workspace(tmp_path), "rates", 1)
    with closing(SmartDataset(hasty.of("rates"), token=token)) as client:
        push(dataset, client)
    path = f"/rates/attestations/{dataset.head()}"
    for pause, size, status in ((0.2, 100, b"408"), (5.0, 1, b"408"), (0.02, 1_000, b"400")):
        with socket.create_connection(("127.0.0.1", hasty.port), timeout=60) as line:
            head = f"PUT {path} HTTP/1.1\r\nhost: h\r\nauthorization: Bearer {token}\r\n"
            line.sendall(f"{head}content-length: 100000\r\n\r\n".encode())
            sent, began = 0, time.monotonic()
            while sent < 100_000 and not select.select([line], [], [], pause)[0]:
                sent += line.send(b"x" * size)
            assert line.recv(999).startswith(b"HTTP/1.1 " + status)
            assert (sent == 100_000) == (status == b"400")
            assert status == b"400" or time.monotonic() - began < 30


@pytest.mark.holds("serving-bounds")
def test_messages_that_drip_hold_no_place_that_others_wait_for(hasty: DatasetServer) -> None:
    headers = {"authorization": f"Bearer {hasty.token('create')}", m.VERSION_HEADER: m.VERSION}
    plan = m.TransferPlan(
        num_blocks=m.U32(1),
        num_objects=m.U32(0),
        num_records=m.U64(0),
        bytes_in_raw_blocks=m.U64(1),
        bytes_in_raw_objects=m.U64(0),
    )
    ended = threading.Event()

    def pushing(name: str) -> ClientConnection:
        url = f"ws://127.0.0.1:{hasty.port}/{name}/push"
        opened = connect(url, additional_headers=headers, compression=None)
        opened.send(encode(m.PushRequest(transfer_plan=plan)))
        opened.recv(60)
        return opened

    def dripping() -> Iterator[str]:
        yield "x" * (LARGE + 1)
        while not ended.wait(0.1):
            yield "x"

    def drip(opened: ClientConnection) -> None:
        with suppress(ConnectionClosed):
            opened.send(dripping())

    drips = [pushing(f"drip{each}") for each in range(LIMITS.large)]
    threads = [threading.Thread(target=drip, args=(each,)) for each in drips]
    for each in threads:
        each.start()
    try:
        time.sleep(3 * _HASTY["turn"])
        assert all(each.is_alive() for each in threads), "while nobody waits"
        with pushing("waits") as waiting:
            waiting.send("x" * (2 * LARGE))
            began = time.monotonic()
            with pytest.raises(ConnectionClosed) as refused:  # of what is no message
                waiting.recv(60)
            assert time.monotonic() - began < 30
        assert refused.value.rcvd is not None
        assert "malformed-message" in refused.value.rcvd.reason
    finally:
        ended.set()
        for each in threads:
            each.join()
    assert CloseCode.TRY_AGAIN_LATER in {each.close_code for each in drips}


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
        assert time.monotonic() - began < LIMITS.stop + LIMITS.farewell + 1
        for each in threads:
            each.join()
    assert int(status.split("VmHWM:")[1].split()[0]) << 10 < 700 << 20
    lines = (tmp_path / "log").read_text().splitlines()
    line = re.compile(r"\d{4}-\d\d-\d\d .* (INFO|WARNING|ERROR) ")
    assert not [each for each in lines if not line.match(each)]
