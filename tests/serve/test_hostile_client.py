"""A client that means harm: every wrong message ends its own push, and nothing else."""

import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect
from websockets.sync.connection import Connection

from odfbuild.odf.identity import Multihash, sha3_256
from odfbuild.repositories.smart import messages as m
from odfbuild.repositories.smart.archive import pack
from odfbuild.repositories.smart.messages import decode_answer, decode_reason, encode
from odfbuild.serve.limits import ServerLimits
from odfbuild.serve.tokens import TokenFile
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.workspace import Workspace
from tests.repositories.smart.test_archive import bomb, endless, tar
from tests.serve.copies import content, made
from tests.support.servers.datasets import DatasetServer, serving_datasets

MOST_MEMORY = 900 << 20  # bytes that the server ever has, of which 60 MiB are its own


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DatasetServer]:
    with serving_datasets(tmp_path_factory.mktemp("server")) as found:
        yield found
        status = Path(f"/proc/{found.process.pid}/status").read_text()
        peak = int(status.split("VmHWM:")[1].split()[0]) << 10
        assert peak < MOST_MEMORY
        assert found.stop() == 0


@pytest.fixture(scope="module")
def token(server: DatasetServer) -> str:
    return server.token("read", "write", "create")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Return a dataset that is not on the server."""
    return made(Workspace(tmp_path_factory.mktemp("here")), "rates", 2)


@pytest.fixture(autouse=True)
def unharmed(server: DatasetServer, token: str) -> Iterator[None]:
    """Hold that the server has no other dataset afterwards, and answers."""
    before = server.workspace.heads()
    yield
    assert server.workspace.heads() == before
    assert httpx.get(f"{server.url}info").status_code == 200


@contextmanager
def talking(server: DatasetServer, token: str, path: str) -> Iterator[Connection]:
    url = f"ws{server.url.removeprefix('http')}{path}"
    headers = {"authorization": f"Bearer {token}", m.VERSION_HEADER: m.VERSION}
    with connect(
        url, additional_headers=headers, compression=None, max_size=None, close_timeout=1
    ) as opened:
        yield opened


def blocks_of(dataset: Dataset) -> list[tuple[Multihash, bytes]]:
    return [(hash, dataset.stores.blocks.get(hash)) for hash, _ in dataset.blocks()]


def plan(count: int) -> m.TransferPlan:
    return m.TransferPlan(
        num_blocks=m.U32(count),
        num_objects=m.U32(0),
        num_records=m.U64(0),
        bytes_in_raw_blocks=m.U64(1_000),
        bytes_in_raw_objects=m.U64(0),
    )


def ended(opened: Connection) -> m.Failure | None:
    """Return the failure that is sent, or is the reason of the close."""
    try:
        answer = decode_answer(m.PushAccepted, opened.recv(60))
        assert isinstance(answer, m.Failure), answer
    except ConnectionClosed as closed:
        assert closed.rcvd is not None
        return decode_reason(closed.rcvd.reason)
    with pytest.raises(ConnectionClosed):
        opened.recv(60)
    return answer


def begun(opened: Connection, count: int) -> None:
    opened.send(encode(m.PushRequest(transfer_plan=plan(count))))
    assert decode_answer(m.PushAccepted, opened.recv(60)) == m.PushAccepted()


FIRST = {
    "no JSON": "x",
    "another message": '{"begin_after":5}',
    "nothing": "",
    "nested": "[" * 1_000_000,
    "no blocks": encode(m.PushRequest(transfer_plan=plan(0))),
    "too many blocks": encode(m.PushRequest(transfer_plan=plan(4_000_000_000))),
    "a head that is not there": encode(
        m.PushRequest(transfer_plan=plan(1), current_head=Multihash(0x16, bytes(32)))
    ),
    "a form of many megabytes": '{"a":[' + "[]," * 8_000_000 + "0]}",
}


@pytest.mark.holds("serving-pushes")
@pytest.mark.parametrize("text", FIRST.values(), ids=FIRST)
def test_a_first_message_that_is_wrong_ends_a_push(
    server: DatasetServer, token: str, text: str
) -> None:
    with talking(server, token, "rates/push") as opened:
        opened.send(text)
        assert ended(opened) is not None


@pytest.mark.parametrize("text", [FIRST["no JSON"], FIRST["nested"], '{"stop_at":"x"}'])
def test_a_first_message_that_is_wrong_ends_a_pull(
    server: DatasetServer, token: str, text: str
) -> None:
    with talking(server, token, "served/pull") as opened:
        opened.send(text)
        assert ended(opened) is not None


@pytest.fixture(scope="module", autouse=True)
def served(server: DatasetServer) -> Dataset:
    return made(server.workspace, "served", 2)


def batch(payload: bytes, count: int, **more: str) -> str:
    return encode(
        m.PushBlocks(
            new_blocks=m.MetadataBlocksBatch(num_blocks=m.U32(count), payload=payload, **more)
        )
    )


def changed(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


ARCHIVES: dict[str, Callable[[list[tuple[Multihash, bytes]]], tuple[str, int]]] = {
    "names with dots": lambda b: (batch(tar((f"../{b[0][0]}", b[0][1])), 1), 1),
    "absolute names": lambda b: (batch(tar((f"/etc/{b[0][0]}", b[0][1])), 1), 1),
    "names of files": lambda b: (batch(tar(("refs/head", b"x")), 1), 1),
    "links": lambda b: (batch(tar((str(b[0][0]), b""), kind=b"2"), 1), 1),
    "wrong hashes": lambda b: (batch(pack([(b[0][0], changed(b[0][1]))]), 1), 1),
    "more than announced": lambda b: (batch(pack(b), 1), 1),
    "another number than in the plan": lambda b: (batch(pack(b), len(b)), 2),
    "fewer than announced": lambda b: (batch(pack(b), 100), 100),
    "a bomb": lambda b: (batch(bomb(1 << 30), 1), 1),
    "an endless archive": lambda b: (batch(endless(200 << 20), 100_000), 100_000),
    "no archive": lambda b: (batch(b"x" * 100, 1), 1),
    "an empty archive": lambda b: (batch(gzip.compress(bytes(1024)), 1), 1),
    "another encoding": lambda b: (batch(pack(b), len(b), encoding="base64"), len(b)),
    "another type": lambda b: (batch(pack(b), len(b), media_type="application/zip"), len(b)),
    "a chain without a beginning": lambda b: (batch(pack(b[1:]), len(b) - 1), len(b) - 1),
    "a chain with a gap": lambda b: (batch(pack([b[0], *b[2:]]), len(b) - 1), len(b) - 1),
    "a chain turned round": lambda b: (batch(pack(b[::-1]), len(b)), len(b)),
    "bytes that are no block": lambda b: (
        batch(pack([(sha3_256(b"x"), b"x")]), 1),
        1,
    ),
    "a message that is none": lambda b: ('{"new_blocks":{"num_blocks":1}}', 1),
}


@pytest.mark.holds("serving-pushes")
@pytest.mark.parametrize("make", ARCHIVES.values(), ids=ARCHIVES)
def test_blocks_that_are_wrong_end_a_push(
    server: DatasetServer,
    token: str,
    dataset: Dataset,
    make: Callable[[list[tuple[Multihash, bytes]]], tuple[str, int]],
) -> None:
    text, count = make(blocks_of(dataset))
    with talking(server, token, "rates/push") as opened:
        begun(opened, count)
        opened.send(text)
        failure = ended(opened)
        assert isinstance(failure, m.TransferFailed)
        assert failure.error_message
    assert not [*(server.workspace.root / "staging").iterdir()]


def sent_blocks(opened: Connection, dataset: Dataset) -> None:
    blocks = blocks_of(dataset)
    begun(opened, len(blocks))
    opened.send(batch(pack(blocks), len(blocks)))
    answer = decode_answer(m.PushBlocksAccepted, opened.recv(60))
    assert answer == m.PushBlocksAccepted()


def references(dataset: Dataset) -> list[m.ObjectFileReference]:
    kinds = {"data": m.ObjectType.DATA_SLICE, "checkpoints": m.ObjectType.CHECKPOINT}
    return [
        m.ObjectFileReference(
            object_type=kinds[path.split("/")[0]],
            physical_hash=Multihash.parse(path.split("/")[1]),
            size=m.U64(len(data)),
        )
        for path, data in content(dataset).items()
        if path.split("/")[0] in kinds
    ]


@pytest.mark.holds("serving-pushes")
def test_files_that_no_block_speaks_of_are_not_taken(
    server: DatasetServer, token: str, dataset: Dataset
) -> None:
    real = references(dataset)[0]
    for wrong in (
        m.ObjectFileReference(
            object_type=real.object_type, physical_hash=Multihash(0x16, bytes(32)), size=m.U64(1)
        ),
        m.ObjectFileReference(
            object_type=real.object_type, physical_hash=real.physical_hash, size=m.U64(1 << 40)
        ),
        m.ObjectFileReference(
            object_type=m.ObjectType.CHECKPOINT, physical_hash=real.physical_hash, size=real.size
        ),
    ):
        with talking(server, token, "rates/push") as opened:
            sent_blocks(opened, dataset)
            opened.send(encode(m.PushObjectsRequest(object_files=(wrong,))))
            assert isinstance(ended(opened), m.TransferFailed)


@pytest.mark.holds("serving-pushes")
def test_a_push_without_its_files_is_not_completed(
    server: DatasetServer, token: str, dataset: Dataset
) -> None:
    with talking(server, token, "rates/push") as opened:
        sent_blocks(opened, dataset)
        opened.send(encode(m.PushObjectsRequest(object_files=())))
        assert decode_answer(m.PushObjects, opened.recv(60)) == m.PushObjects(())
        opened.send(encode(m.PushProgress(m.UploadsComplete())))
        opened.send(encode(m.PushCompleteRequest()))
        failure = ended(opened)
    assert isinstance(failure, m.TransferFailed)
    assert failure.error_message == "missing-object"
    assert failure.phase == m.PushPhase(m.Phase.COMPLETE_REQUEST)


def test_questions_without_end_are_answered_so_often(
    server: DatasetServer, token: str, dataset: Dataset
) -> None:
    with talking(server, token, "rates/push") as opened:
        sent_blocks(opened, dataset)
        for _ in range(1_000):
            opened.send(encode(m.PushObjectsRequest(object_files=(), is_truncated=True)))
            opened.recv(60)
        opened.send(encode(m.PushObjectsRequest(object_files=(), is_truncated=True)))
        assert ended(opened) is not None


@contextmanager
def waiting_upload(
    server: DatasetServer, token: str, dataset: Dataset
) -> Iterator[tuple[m.TransferUrl, bytes]]:
    """Open a push as far as the address for one of its files; give that and the file."""
    with talking(server, token, "rates/push") as opened:
        sent_blocks(opened, dataset)
        wanted = references(dataset)[0]
        opened.send(encode(m.PushObjectsRequest(object_files=(wanted,))))
        answer = decode_answer(m.PushObjects, opened.recv(60))
        assert isinstance(answer, m.PushObjects)
        where = answer.object_transfer_strategies[0].upload_to
        assert where is not None
        yield where, content(dataset)[f"data/{wanted.physical_hash}"]


def headers_of(where: m.TransferUrl) -> dict[str, str]:
    return {each.name: each.value for each in where.headers}


@pytest.mark.holds("serving-bounds")
def test_a_file_of_other_bytes_or_another_length_is_not_kept(
    server: DatasetServer, token: str, dataset: Dataset
) -> None:
    with waiting_upload(server, token, dataset) as (where, data):
        for body, status in (
            (changed(data), 400),
            (data + b"x", 400),
            (data[:-1], 400),
            (iter([data]), 411),
        ):
            answer = httpx.put(where.url, content=body, headers=headers_of(where))
            assert answer.status_code == status
        other = where.url.replace("/data/", "/checkpoints/")
        assert httpx.put(other, content=data, headers=headers_of(where)).status_code == 409
        stranger = server.token("write", "create")
        headers = {"authorization": f"Bearer {stranger}"}
        assert httpx.put(where.url, content=data, headers=headers).status_code == 409
    incoming = server.workspace.root / "cache" / "incoming"
    assert not [each for each in incoming.rglob("*") if each.is_file()]
    assert httpx.put(where.url, content=data, headers=headers_of(where)).status_code == 409


def test_a_body_that_breaks_off_leaves_nothing(
    server: DatasetServer, token: str, dataset: Dataset
) -> None:
    with waiting_upload(server, token, dataset) as (where, data):
        url = httpx.URL(where.url)
        with socket.create_connection((url.host, url.port or 80)) as opened:
            lines = [f"PUT {url.path} HTTP/1.1", f"host: {url.host}"]
            lines += [f"content-length: {len(data)}"]
            lines += [f"{name}: {value}" for name, value in headers_of(where).items()]
            opened.sendall("\r\n".join([*lines, "", ""]).encode() + data[:10])
            time.sleep(0.2)
        end = time.monotonic() + 20
        incoming = server.workspace.root / "cache" / "incoming"
        while [each for each in incoming.rglob("*") if each.is_file()]:
            assert time.monotonic() < end
            time.sleep(0.05)


@pytest.mark.holds("serving-bounds")
def test_a_huge_frame_is_not_read(server: DatasetServer, token: str) -> None:
    with talking(server, token, "rates/push") as opened:
        with pytest.raises(ConnectionClosed) as caught:
            opened.send(" " * (80 << 20))
            opened.recv(60)
        assert caught.value.rcvd is None or caught.value.rcvd.code == 1009


def test_bytes_in_the_place_of_text_end_a_push(server: DatasetServer, token: str) -> None:
    with talking(server, token, "rates/push") as opened:
        opened.send(b"{}")
        assert ended(opened) == m.TransferFailed(
            phase=m.PushPhase(m.Phase.INITIAL_REQUEST), error_message="malformed-message"
        )


def test_clients_that_leave_at_any_message_leave_nothing(
    server: DatasetServer, token: str, dataset: Dataset
) -> None:
    steps: list[Callable[[Connection], None]] = [
        lambda opened: None,
        lambda opened: begun(opened, 3),
        lambda opened: sent_blocks(opened, dataset),
    ]
    for each in steps:
        with talking(server, token, "rates/push") as opened:
            each(opened)
        with talking(server, token, "rates/push") as opened:
            each(opened)
            opened.socket.shutdown(socket.SHUT_RDWR)
    end = time.monotonic() + 20
    while [*(server.workspace.root / "staging").iterdir()]:
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.holds("serving-bounds")
def test_requests_that_do_not_end_are_cut_off(tmp_path: Path) -> None:
    with (
        serving_datasets(tmp_path, limits={"request": 1.0}) as hasty,
        socket.create_connection(("127.0.0.1", hasty.port), timeout=60) as opened,
    ):
        begin = time.monotonic()
        stop = threading.Event()

        def drip() -> None:
            try:
                opened.sendall(b"GET /info HTTP/1.1\r\n")
                while not stop.wait(0.5):
                    opened.sendall(b"x-a: b\r\n")
            except OSError:
                return

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            assert opened.recv(100) == b""
        except ConnectionResetError:
            pass
        finally:
            stop.set()
            thread.join()
        assert time.monotonic() - begin < 50


def test_a_request_line_without_end_is_refused(server: DatasetServer) -> None:
    url = httpx.URL(server.url)
    with socket.create_connection((url.host, url.port or 80), timeout=30) as opened:
        try:
            for _ in range(64):
                opened.sendall(b"x" * 4_096)
            assert b" 400 " in opened.recv(4_096)
        except (ConnectionResetError, BrokenPipeError):
            pass


@pytest.mark.holds("serving-bounds")
def test_only_so_many_transfers_go_on_at_once(server: DatasetServer, token: str) -> None:
    limits = ServerLimits()
    callers = [server.token("create") for _ in range(limits.transfers // limits.of_one_caller)]
    with ExitStack() as stack:
        for other in callers * limits.of_one_caller:
            begun(stack.enter_context(talking(server, other, "rates/push")), 1)
        with pytest.raises(InvalidStatus, match="503"):
            stack.enter_context(talking(server, token, "rates/push"))
    end = time.monotonic() + 20
    while True:
        try:
            with talking(server, token, "rates/push"):
                return
        except InvalidStatus:
            assert time.monotonic() < end
            time.sleep(0.05)


# a token that is taken back, and room


def revoke(server: DatasetServer, token: str) -> None:
    """Take a token back, as its keeper does at any time."""
    TokenFile(server.tokens).revoke(sha256(token.encode()).hexdigest()[:12])


@pytest.mark.parametrize("stage", ["request", "blocks", "files"])
def test_a_token_that_is_taken_back_publishes_nothing(
    server: DatasetServer, dataset: Dataset, stage: str
) -> None:
    token = server.token("create")
    blocks = blocks_of(dataset)[:1]
    with talking(server, token, "revoked/push") as opened:
        begun(opened, 1)
        if stage == "request":
            revoke(server, token)
        opened.send(batch(pack(blocks), 1))
        assert decode_answer(m.PushBlocksAccepted, opened.recv(60)) == m.PushBlocksAccepted()
        if stage == "blocks":
            revoke(server, token)
        opened.send(encode(m.PushObjectsRequest(object_files=(), is_truncated=False)))
        if stage == "files":
            assert isinstance(decode_answer(m.PushObjects, opened.recv(60)), m.PushObjects)
            revoke(server, token)
            opened.send(encode(m.PushProgress(m.UploadsComplete())))
            opened.send(encode(m.PushCompleteRequest()))
        failure = ended(opened)
    assert isinstance(failure, m.TransferFailed)
    assert "revoked" in failure.error_message


@pytest.mark.parametrize("stage", ["begin", "plan", "blocks"])
def test_a_token_that_is_taken_back_reads_nothing_more(
    server: DatasetServer, served: Dataset, stage: str
) -> None:
    token = server.token("read")
    file = references(served)[0]
    with talking(server, token, "served/pull") as opened, pytest.raises(ConnectionClosed):
        if stage == "begin":
            revoke(server, token)
        opened.send(encode(m.PullRequest()))
        opened.recv(60)
        if stage == "plan":
            revoke(server, token)
        opened.send(encode(m.PullBlocksRequest()))
        opened.recv(60)
        revoke(server, token)
        opened.send(encode(m.PullObjectsRequest((file,))))
        opened.recv(60)


@pytest.mark.holds("serving-bounds")
@pytest.mark.parametrize("how", ["unknown", "twice", "very many"])
def test_files_that_are_not_here_have_no_address(
    server: DatasetServer, token: str, served: Dataset, how: str
) -> None:
    """The server may not need more memory for them than its limit, either."""
    file = references(served)[0]
    other = m.ObjectFileReference(
        object_type=file.object_type, physical_hash=sha3_256(b"no"), size=m.U64(5)
    )
    asked = {"unknown": (file, other), "twice": (file, file), "very many": (other,) * 300_000}[how]
    with talking(server, token, "served/pull") as opened:
        opened.send(encode(m.PullRequest()))
        opened.recv(60)
        opened.send(encode(m.PullBlocksRequest()))
        opened.recv(60)
        opened.send(encode(m.PullObjectsRequest(asked)))
        assert isinstance(ended(opened), m.TransferFailed)


def test_who_opens_transfers_and_is_silent_keeps_nobody_from_theirs(
    server: DatasetServer, token: str, served: Dataset
) -> None:
    silent = server.token("read")
    with ExitStack() as opened:
        for _ in range(ServerLimits().of_one_caller):
            opened.enter_context(talking(server, silent, "served/pull"))
        with pytest.raises(InvalidStatus, match="503"):
            opened.enter_context(talking(server, silent, "served/pull"))
        for path in ("served/pull", "fresh/push"):
            with talking(server, token, path):
                pass
