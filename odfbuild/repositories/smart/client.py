"""Client of the smart transfer protocol: one dataset on a server, read and extended.

Blocks and questions go over a WebSocket, files over HTTP.  A pull keeps its conversation open from
the blocks to the question where their files are; what is read after that, or was not asked for, is
read from where the simple protocol has it, on the same server.
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from odfbuild.host.client_logs import silence_clients
from odfbuild.host.pace import Deadline
from odfbuild.odf.identity import Multihash
from odfbuild.odf.wire.blocks import decode_link
from odfbuild.repositories.protocol import ChainUpdate, ObjectFile, ReadOnlyRepositoryError
from odfbuild.repositories.smart.archive import pack, unpack
from odfbuild.repositories.smart.messages import (
    ENCODING,
    MEDIA_TYPE,
    U32,
    U64,
    Failure,
    InvalidInterval,
    MetadataBlocksBatch,
    ObjectFileReference,
    ObjectType,
    PullBlocks,
    PullBlocksRequest,
    PullObjects,
    PullObjectsRequest,
    PullPlan,
    PullRequest,
    PushAccepted,
    PushBlocks,
    PushBlocksAccepted,
    PushComplete,
    PushCompleteRequest,
    PushMethod,
    PushObjects,
    PushObjectsRequest,
    PushProgress,
    PushProgressRequest,
    PushRequest,
    PushStrategy,
    TransferPlan,
    TransferUrl,
    UploadsComplete,
    UploadsRunning,
    Visibility,
    decode,
    decode_answer,
    decode_reason,
    encode,
)
from odfbuild.repositories.smart.refusals import (
    RemoteFailureError,
    TransferTimeoutError,
    UncertainHeadError,
    refusal,
)
from odfbuild.repositories.smart.server_files import (
    ServerFiles,
    certificates,
    parsed_head,
    refused,
    unreachable,
)
from odfbuild.state.chain.attestations import DELEGATIONS, AttestationName
from odfbuild.state.chain.heads import HEAD, HeadMovedError
from odfbuild.state.remote.client import CountBytes
from odfbuild.state.remote.errors import (
    BrokenSourceError,
    TransferError,
    UnreachableRepositoryError,
)
from odfbuild.values import dataclass

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

LARGEST_FRAME = 256 << 20  # characters
_PART = 1 << 20  # bytes of a message that are sent at once, within the time for a message
_BATCH = 500  # files that are asked for in one message
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferPatience:
    """How long a server is waited for, in seconds: a connection, a message, the end of a push.

    A server makes the last message of a push when it has judged the chain and all files.
    """

    connection: float = 20.0
    message: float = 120.0
    completion: float = 1_800.0
    progress: float = 0.5  # between two looks whether the server asks how far a push is


class SmartDataset:
    """A dataset at an address like `odf+https://host/account/name/`; a ChainSource and ChainTarget.

    `visibility` is that of a dataset which a push makes.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        repository: str | None = None,
        visibility: Visibility = Visibility.PRIVATE,
        parallel: int = 4,
        patience: TransferPatience | None = None,
    ) -> None:
        self.url = url.removeprefix("odf+").rstrip("/") + "/"
        self._files = ServerFiles(self.url, token, repository)
        self._visibility = visibility
        self._parallel = parallel
        self._patience = patience or TransferPatience()
        self._pull: _Conversation | None = None
        self._known: dict[Multihash, TransferUrl] = {}

    @property
    def place(self) -> str:
        """Return the address, without what may be a credential in it."""
        parts = urlsplit(self.url)
        return f"odf+{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def close(self) -> None:
        """End what is open; it can be used again."""
        self._hang_up()
        self._files.close()

    # reading

    def head(self, ref: str = HEAD) -> Multihash | None:
        """Return what a reference says, None if there is no such dataset or reference."""
        return parsed_head(self._files.text(f"refs/{ref}"), self.place)

    def blocks(self, head: Multihash, after: Multihash | None) -> Iterator[tuple[Multihash, bytes]]:
        """Yield the blocks in (after, head], newest first; all of them where `after` does not come
        before the head.
        """
        if head == after:
            return
        self._hang_up()
        with tempfile.TemporaryFile() as spool:
            places: list[tuple[Multihash, int]] = []
            for hash, data in self._asked_blocks(head, after):
                places.append((hash, len(data)))
                spool.write(data)
            at = spool.tell()
            for hash, size in reversed(places):
                at -= size
                spool.seek(at)
                yield hash, spool.read(size)

    def _asked_blocks(
        self, head: Multihash, after: Multihash | None
    ) -> Iterator[tuple[Multihash, bytes]]:
        """Yield blocks as an archive has them, oldest first."""
        talk = _Conversation(self._files, self.place, "pull", self._patience)
        try:
            plan = talk.answer(
                PullPlan,
                PullRequest(begin_after=after, stop_at=head, force_update_if_diverged=True),
            )
            if isinstance(plan, InvalidInterval) and after is not None:  # of a server of 2024
                talk.close()
                talk = _Conversation(self._files, self.place, "pull", self._patience)
                plan = talk.answer(
                    PullPlan, PullRequest(stop_at=head, force_update_if_diverged=True)
                )
            if not isinstance(plan, PullPlan):
                raise refusal(plan, self.place)
            count = plan.transfer_plan.num_blocks
            if count == 0:
                raise _broken(self.place, "it has no blocks between that and its head")
            talk.send(PullBlocksRequest())
            batch = talk.receive(PullBlocks, "blocks").blocks
            if batch.num_blocks != count:
                raise _broken(
                    self.place, f"it announces {count:,} blocks and sends {batch.num_blocks:,}"
                )
            if (batch.media_type, batch.encoding) != (MEDIA_TYPE, ENCODING):
                raise _broken(
                    self.place, f"its blocks come as {batch.media_type}, {batch.encoding}"
                )
            yield from unpack(batch.payload, blocks=count)
        except BaseException:
            talk.close()
            raise
        self._pull = talk

    def expect(self, files: Sequence[ObjectFile]) -> None:
        """Ask where files are, if a conversation is open; it is ended."""
        talk, self._pull = self._pull, None
        self._known.clear()
        if talk is None:
            return
        try:
            for start in range(0, len(files), _BATCH):
                batch = files[start : start + _BATCH]
                talk.send(PullObjectsRequest(tuple(map(_reference, batch))))
                self._note(talk.receive(PullObjects, "addresses of files"), batch)
        finally:
            talk.close()

    def _note(self, answer: PullObjects, asked: Sequence[ObjectFile]) -> None:
        wanted = {each.hash for each in asked}
        for each in answer.object_transfer_strategies:
            if each.object_file.physical_hash in wanted:
                self._files.checked(each.download_from.url)
                self._known[each.object_file.physical_hash] = each.download_from

    def read(self, file: ObjectFile, start: int) -> AbstractContextManager[Iterator[bytes]]:
        """Open a file from a byte on, at the address that the server named while that is good."""
        where = self._known.get(file.hash)
        if where is None or _is_over(where):
            where = self._files.own(f"{file.kind}/{file.hash}")
        return self._files.read(where, start)

    def attestation(self, name: AttestationName) -> bytes | None:
        """Return the envelope that signs a head, or the list of delegations, if there is one."""
        return self._files.small(f"attestations/{name}")

    # writing

    def push(self, update: ChainUpdate, moved: CountBytes) -> None:
        """Send blocks, files and attestation; the server swaps its head.

        Where it has the head already, only what signs it is sent.  Raises HeadMovedError,
        SeedOverwriteError, RefCollisionError, NameCollisionError, RemoteFailureError, and
        UncertainHeadError where the end is not known.
        """
        if update.head == update.expected:
            self._sign(update)
            return
        talk = _Conversation(self._files, self.place, "push", self._patience)
        sent = False
        try:
            self._announce(talk, update)
            uploads = self._asked_uploads(talk, update, moved)
            self._upload(talk, uploads, update, moved)
            talk.send(PushCompleteRequest())
            sent = True
            self._confirm(talk, update)
        except HeadMovedError as error:
            raise self._moved_error(error, update) from None
        except (UnreachableRepositoryError, TransferTimeoutError) as error:
            if not (sent and self._has(update.head)):
                if not sent:
                    raise
                raise UncertainHeadError(self.place, update.head) from error
        finally:
            talk.close()

    def _sign(self, update: ChainUpdate) -> None:
        """Send what signs a head that is there."""
        if (actual := self.head()) != update.expected:
            raise HeadMovedError(update.expected, actual)
        signed = {DELEGATIONS: update.delegations, str(update.head): update.attestation}
        for name, envelope in signed.items():
            if envelope is not None and not self._files.put(f"attestations/{name}", envelope):
                raise ReadOnlyRepositoryError(
                    what=f"{self.place} does not take signatures of heads that it has",
                    why="its protocol does not support them",
                    fix="push again when there is a new block; or push to a folder, a bucket or "
                    "odfbuild serve",
                )

    def _announce(self, talk: "_Conversation", update: ChainUpdate) -> None:
        blocks = _blocks_of(update)
        plan = TransferPlan(
            num_blocks=U32(len(blocks)),
            num_objects=U32(len(update.files)),
            num_records=U64(update.records),
            bytes_in_raw_blocks=U64(sum(len(data) for _, data in blocks)),
            bytes_in_raw_objects=U64(sum(each.size for each in update.files)),
        )
        self._answer_or_refusal(
            talk.answer(
                PushAccepted,
                PushRequest(
                    current_head=update.expected,
                    transfer_plan=plan,
                    force_update_if_diverged=update.force,
                    visibility_for_created_dataset=self._visibility,
                ),
            ),
            update,
        )
        message = PushBlocks(
            new_blocks=MetadataBlocksBatch(num_blocks=U32(len(blocks)), payload=pack(blocks)),
            attestation=_as_text(update.attestation),
            delegations=_as_text(update.delegations),
        )
        self._answer_or_refusal(talk.answer(PushBlocksAccepted, message), update)

    def _asked_uploads(
        self, talk: "_Conversation", update: ChainUpdate, moved: CountBytes
    ) -> list[tuple[ObjectFile, TransferUrl]]:
        """Return the files that the server lacks, and where it wants them; at least once it is
        asked, as it says only there whether a name is taken.
        """
        by_hash: dict[tuple[str, Multihash], ObjectFile] = {
            (each.kind, each.hash): each for each in update.files
        }
        uploads = []
        files = update.files
        for start in range(0, max(len(files), 1), _BATCH):
            batch = tuple(map(_reference, files[start : start + _BATCH]))
            question = PushObjectsRequest(
                object_files=batch, is_truncated=start + _BATCH < len(files)
            )
            answer = self._answer_or_refusal(talk.answer(PushObjects, question), update)
            for each in answer.object_transfer_strategies:
                known = by_hash.pop(_key(each), None)
                if known is not None and (where := _upload_of(each, self.place)) is not None:
                    self._files.checked(where.url)
                    uploads.append((known, where))
                elif known is not None:
                    moved(known.size)
        if by_hash:
            raise _broken(self.place, f"it does not mention {len(by_hash):,} files")
        return uploads

    def _upload(
        self,
        talk: "_Conversation",
        uploads: Sequence[tuple[ObjectFile, TransferUrl]],
        update: ChainUpdate,
        moved: CountBytes,
    ) -> None:
        """Send files, and say how far they are whenever the server asks."""

        def send(file: ObjectFile, where: TransferUrl) -> None:
            self._files.send(where, update.path(file), file.size, moved)

        with ThreadPoolExecutor(max(1, self._parallel)) as threads:
            try:
                running = {threads.submit(send, *each) for each in uploads}
                all_of = set(running)
                while running:
                    done, running = wait(
                        running, self._patience.progress, return_when=FIRST_EXCEPTION
                    )
                    for each in done:
                        each.result()
                    self._report(talk, all_of)
            except BaseException:
                threads.shutdown(wait=True, cancel_futures=True)
                raise
        self._report(talk, all_of)
        talk.send(PushProgress(UploadsComplete()))

    def _report(self, talk: "_Conversation", uploads: set[Future[None]]) -> None:
        """Answer every question that the server has sent so far."""
        while (frame := talk.waiting()) is not None:
            decode(PushProgressRequest, frame)
            count = sum(each.done() for each in uploads)
            talk.send(PushProgress(UploadsRunning(U64(count))))

    def _confirm(self, talk: "_Conversation", update: ChainUpdate) -> None:
        """Return when the server has the new head.

        A question how far the uploads are that crossed the news of their end looks like the
        confirmation; so the head is looked at, and if it is another, or may not be read, another
        message or the end of the conversation is waited for.
        """
        end = time.monotonic() + self._patience.completion
        talk.receive(PushComplete, "the confirmation", self._patience.completion)
        if not self._has(update.head):
            talk.wait_for_end(end - time.monotonic())

    def _has(self, head: Multihash) -> bool:
        with suppress(TransferError):
            return self.head() == head
        return False

    def _answer_or_refusal(self, answer: _T | Failure, update: ChainUpdate) -> _T:
        if isinstance(answer, Failure):
            raise refusal(
                answer, self.place, expected=update.expected, dataset=update.dataset
            ) from None
        return answer

    def _moved_error(self, error: HeadMovedError, update: ChainUpdate) -> HeadMovedError:
        """Return the error with the head of the server now or, if that is hidden, as sent."""
        actual = error.actual
        with suppress(TransferError):
            actual = self.head() or actual
        return HeadMovedError(update.expected, actual)

    def _hang_up(self) -> None:
        if self._pull is not None:
            self._pull.close()
            self._pull = None


class _Conversation:
    """A WebSocket on which one message follows another."""

    def __init__(
        self, files: ServerFiles, place: str, verb: str, patience: TransferPatience
    ) -> None:
        self._place = place
        self._patience = patience
        self._socket = _connect(files, place, verb, patience)
        self._early: bytes | None = None

    def answer(self, cls: type[_T], message: object) -> _T | Failure:
        """Send a message, and return what answers it."""
        self.send(message)
        return decode_answer(cls, self._frame(_words(cls), self._patience.message))

    def receive(self, cls: type[_T], due: str, seconds: float | None = None) -> _T:
        """Return the next message."""
        wanted = self._patience.message if seconds is None else max(seconds, 0.001)
        return decode(cls, self._frame(due, wanted))

    def send(self, message: object) -> None:
        """Send a message.

        Who refuses may answer and end before this is sent: then the answer is read next.
        """
        from websockets.exceptions import ConnectionClosed

        data = encode(message).encode()
        deadline = Deadline(self._patience.message, self._socket.close_socket)
        deadline.start()
        with self._lasting():
            try:
                whole = len(data) <= _PART
                self._socket.send(data if whole else _parts(data, deadline.start), text=True)
            except ConnectionClosed as closed:
                if deadline.is_over:
                    raise TransferTimeoutError(
                        self._place, "room for a message", deadline.seconds
                    ) from None
                try:
                    self._early = self._read(0)
                except TimeoutError:
                    raise closed from None
            finally:
                deadline.cancel()

    def waiting(self) -> bytes | None:
        """Return a frame that has come; None if there is none."""
        with self._lasting():
            try:
                return self._read(0)
            except TimeoutError:
                return None

    def wait_for_end(self, seconds: float) -> None:
        """Return at the next message, or when the other side ends the conversation in order.

        Raises what another end means.
        """
        from websockets.exceptions import ConnectionClosedOK

        with self._lasting(), suppress(ConnectionClosedOK):
            try:
                self._read(max(seconds, 0.001))
            except TimeoutError:
                raise TransferTimeoutError(self._place, "the confirmation", seconds) from None

    def close(self) -> None:
        """End the conversation with code 1000."""
        from websockets.exceptions import WebSocketException

        with suppress(OSError, RuntimeError, WebSocketException):
            self._socket.close()

    def _frame(self, due: str, seconds: float) -> bytes:
        with self._lasting():
            try:
                return self._read(seconds)
            except TimeoutError:
                raise TransferTimeoutError(self._place, due, seconds) from None

    def _read(self, seconds: float) -> bytes:
        """Return the next frame, also one that came before the connection ended."""
        early, self._early = self._early, None
        if early is not None:
            return early
        return _as_bytes(self._socket.recv(seconds, decode=False))

    @contextmanager
    def _lasting(self) -> Iterator[None]:
        """Raise what a connection that ends means."""
        from websockets.exceptions import ConnectionClosed

        try:
            yield
        except ConnectionClosed as error:
            raise self._end_error(error.rcvd.reason if error.rcvd else "", error) from None
        except TimeoutError:
            raise
        except OSError as error:
            raise unreachable(self._place, str(error)) from None

    def _end_error(self, reason: str, error: Exception) -> TransferError | HeadMovedError:
        code = getattr(getattr(error, "rcvd", None), "code", None)
        if code in (1011, 1008, 4000) and (found := decode_reason(reason)) is not None:
            return refusal(found, self._place)
        sent = getattr(error, "sent", None)
        if sent is not None and sent.code in (1002, 1007, 1009):
            return _broken(self._place, f"it sends an invalid message: {sent.reason or sent.code}")
        if code is not None and code not in (1000, 1001, 1006, 1012):
            return RemoteFailureError(self._place, f"{reason or 'closed'} ({code})", None)
        return unreachable(self._place, "the connection ended in the middle of a transfer")


def _connect(
    files: ServerFiles, place: str, verb: str, patience: TransferPatience
) -> "ClientConnection":
    from websockets.exceptions import InvalidStatus, WebSocketException
    from websockets.sync.client import connect

    silence_clients()
    url = f"ws{files.url.removeprefix('http')}{verb}"
    try:
        return connect(
            url,
            additional_headers=dict(files.headers),
            user_agent_header=None,
            ssl=certificates() if url.startswith("wss") else None,
            compression=None,  # blocks are packed already
            open_timeout=patience.connection,
            ping_timeout=None,  # each message has a time of its own
            close_timeout=5,
            max_size=LARGEST_FRAME,
            max_queue=1,
        )
    except InvalidStatus as error:
        body = (error.response.body or b"").decode("utf-8", "replace")
        status = error.response.status_code
        raise refused(place, status, body, repository=files.repository) from None
    except TimeoutError:
        raise TransferTimeoutError(place, "an answer", patience.connection) from None
    except (OSError, EOFError, ValueError, WebSocketException) as error:  # of hosts, too
        raise unreachable(place, str(error)) from None


def _parts(message: bytes, begin: Callable[[], None]) -> Iterator[bytes]:
    """Yield a message in parts; `begin` hears of each before it is sent."""
    for start in range(0, len(message), _PART):
        begin()
        yield message[start : start + _PART]


def _blocks_of(update: ChainUpdate) -> list[tuple[Multihash, bytes]]:
    """Return the blocks that are sent: where the server has them all, and is set back, the chain
    from its Seed on, as no push is without blocks.
    """
    if update.blocks:
        return [(each, update.block(each)) for each in update.blocks]
    found: list[tuple[Multihash, bytes]] = []
    at: Multihash | None = update.head
    while at is not None:
        found.append((at, update.block(at)))
        at = decode_link(found[-1][1])
    found.reverse()
    return found


def _as_text(envelope: bytes | None) -> str | None:
    return None if envelope is None else envelope.decode("utf-8")


def _as_bytes(frame: str | bytes) -> bytes:
    return frame.encode() if isinstance(frame, str) else frame


def _reference(file: ObjectFile) -> ObjectFileReference:
    is_data = file.kind == "data"
    return ObjectFileReference(
        object_type=ObjectType.DATA_SLICE if is_data else ObjectType.CHECKPOINT,
        physical_hash=file.hash,
        size=U64(file.size),
    )


def _key(strategy: PushStrategy) -> tuple[str, Multihash]:
    is_data = strategy.object_file.object_type is ObjectType.DATA_SLICE
    return "data" if is_data else "checkpoints", strategy.object_file.physical_hash


def _upload_of(strategy: PushStrategy, place: str) -> TransferUrl | None:
    if strategy.push_strategy is PushMethod.SKIP:
        return None
    if strategy.upload_to is None:
        raise _broken(place, "it wants a file and does not say where")
    return strategy.upload_to


def _is_over(where: TransferUrl) -> bool:
    return where.expires_at is not None and where.expires_at <= datetime.now(UTC)


def _words(cls: type[object]) -> str:
    return {
        PullPlan: "the plan of a pull",
        PushAccepted: "the answer to a push",
        PushBlocksAccepted: "the answer to blocks",
    }.get(cls, "addresses for files")


def _broken(place: str, what: str) -> BrokenSourceError:
    return BrokenSourceError(
        what=f"{place}: {what}",
        why="an answer must match the request and what was announced",
        fix="try again; if it persists, the server is faulty or malicious",
    )
