"""A push over a WebSocket: blocks are checked, then files received, then the head is swapped.

Pushed blocks must follow the rules of any chain from elsewhere (`repositories.intake`); a new
dataset appears completely or not at all.  A push that breaks off leaves the old or the new head.
"""

import getpass
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from anyio.to_thread import run_sync

from odfbuild.errors import OdfBuildError, ProtocolError
from odfbuild.host.files import read_regular
from odfbuild.odf.identity import DatasetId, Multihash
from odfbuild.odf.refs import DatasetAlias
from odfbuild.repositories.intake import Arrival, missing_files, put_in_place, receive_blocks
from odfbuild.repositories.protocol import LARGEST_ATTESTATION, SeedOverwriteError
from odfbuild.repositories.signatures.attestation import verified_attestation
from odfbuild.repositories.signatures.delegation_lists import keep_delegations
from odfbuild.repositories.signatures.trust import UnsignedUndoError
from odfbuild.repositories.smart.archive import UnsafeArchiveError, unpack
from odfbuild.repositories.smart.messages import (
    ENCODING,
    MEDIA_TYPE,
    Failure,
    InvalidHead,
    MalformedMessageError,
    NameCollision,
    ObjectFileReference,
    ObjectType,
    Phase,
    PushAccepted,
    PushBlocks,
    PushBlocksAccepted,
    PushComplete,
    PushCompleteRequest,
    PushMethod,
    PushObjects,
    PushObjectsRequest,
    PushPhase,
    PushProgress,
    PushProgressRequest,
    PushRequest,
    PushStrategy,
    RefCollision,
    SeedBlockOverwriteRestricted,
    TransferFailed,
    TransferUrl,
    UploadsComplete,
    Visibility,
)
from odfbuild.repositories.smart.refusals import DivergedIntervalError
from odfbuild.serve.access import AccessError, Caller
from odfbuild.serve.files.uploads import OpenPush
from odfbuild.serve.served import Served
from odfbuild.serve.smart.frames import Frames, HungUpError, LateError
from odfbuild.state.chain.attestations import LocalAttestations
from odfbuild.state.chain.dataset import Dataset
from odfbuild.state.chain.heads import HEAD, HeadMovedError
from odfbuild.state.lease import BusyError, Worker, take_lease
from odfbuild.state.remote.errors import TransferError
from odfbuild.state.remote.view.outage import is_outage
from odfbuild.state.workspace import AliasTakenError
from odfbuild.values import dataclass

_PAUSE = 0.02  # seconds
_FAR_PAUSE = 0.5  # of a lease in a store, which is asked each time
_ROUNDS = 1_000  # requests for URLs in one push
_NOT_SIGNED = (
    "not-signed: the owner of the dataset did not sign the step to this head from the one here"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PushedHead:
    """A head that is to replace another one, and its signatures as they were sent.

    It `leads_on` if it follows that one, so that no block is given up.
    """

    alias: DatasetAlias
    dataset: DatasetId
    head: Multihash
    sequence: int
    before: Multihash | None
    leads_on: bool
    attestation: bytes | None
    delegations: bytes | None


class HeadJudge(Protocol):
    """Checks pushes of callers who have no token to write."""

    def check(self, pushed: PushedHead, here: Dataset | None) -> None:
        """Raise an OdfBuildError if the owner of the dataset did not sign the head."""


class _Refused(Exception):
    """The push ends with a failure; if `late`, the protocol has no message for it."""

    def __init__(self, failure: Failure, *, late: bool = False) -> None:
        super().__init__(failure)
        self.failure = failure
        self.late = late


class SmartPush:
    """One push to one dataset, from its first message to its last."""

    def __init__(
        self,
        served: Served,
        frames: Frames,
        alias: DatasetAlias,
        caller: Caller,
        address_of: Callable[[str, Multihash, str], TransferUrl],
        judge: HeadJudge,
    ) -> None:
        self._served = served
        self._frames = frames
        self._limits = served.settings.limits
        self._alias = alias
        self._address_of = address_of
        self._judge = judge
        self._phase = Phase.INITIAL_REQUEST
        self._push = OpenPush(alias, caller)
        self._workspace = served.place.changed
        self._visibility = Visibility.PRIVATE

    async def answer(self) -> None:
        """Conduct the conversation."""
        frames = self._frames
        try:
            await self._converse()
            await frames.wait_for_close(self._limits.farewell)
        except _Refused as refused:
            with suppress(HungUpError, LateError):
                if not refused.late:
                    await frames.send(refused.failure)
                    return
            await frames.fail(refused.failure)
        except HungUpError:
            return
        except LateError:
            await frames.fail(self._failed("no message arrived in time"))
        except (AccessError, OdfBuildError, OSError) as error:
            await frames.fail(self._failed(_error_text(error)))
        finally:
            self._served.uploads.end(self._push)

    async def _converse(self) -> None:
        request = await self._frames.receive(PushRequest, self._limits.request)
        await run_sync(self._check_request, request)
        await self._frames.send(PushAccepted())
        self._phase = Phase.METADATA_REQUEST
        sent = await self._frames.receive(PushBlocks)
        staging = self._workspace.staging()
        folder = await run_sync(staging.__enter__)
        try:
            arrival = await run_sync(self._judged, request, sent, folder)
            signed = _as_bytes(sent.attestation), _as_bytes(sent.delegations)
            del sent
            await self._frames.send(PushBlocksAccepted())
            await self._gather(arrival)
            await self._finish(request, arrival, *signed)
        finally:
            await run_sync(lambda: staging.__exit__(None, None, None))

    def _check_request(self, request: PushRequest) -> None:
        dataset = self._found()
        head = None if dataset is None else dataset.head()
        if not self._is_blind(dataset) and head != request.current_head:
            raise _Refused(InvalidHead(request.current_head, head))
        plan, most = request.transfer_plan, self._limits.archive
        if not 0 < plan.num_blocks <= most.entries or plan.bytes_in_raw_blocks > most.bytes:
            raise _Refused(
                self._failed(f"{plan.num_blocks:,} blocks; at most {most.entries:,} may be pushed")
            )
        self._visibility = request.visibility_for_created_dataset

    def _is_blind(self, dataset: Dataset | None) -> bool:
        """Return whether the client must not learn anything, not even whether the dataset exists.

        That is so for a client that may not read it, until its owner's signature was verified.
        """
        access, caller, alias = self._served.access, self._push.caller, self._alias
        id = None if dataset is None else dataset.id
        return not (access.writes(caller, alias, id) or access.sees(caller, alias, id))

    def _judged(self, request: PushRequest, sent: PushBlocks, folder: Path) -> Arrival:
        """Return the blocks that were sent, checked by all rules."""
        batch = sent.new_blocks
        try:
            if batch.num_blocks != request.transfer_plan.num_blocks:
                raise UnsafeArchiveError("the number of blocks is not the announced one")
            if (batch.media_type, batch.encoding) != (MEDIA_TYPE, ENCODING):
                raise UnsafeArchiveError(f"it is {batch.media_type}, {batch.encoding}")
            for signed in (sent.attestation, sent.delegations):
                if signed is not None and len(signed) > LARGEST_ATTESTATION:
                    raise UnsafeArchiveError("its signatures are too large")
            arrival = self._received(batch.payload, batch.num_blocks, folder)
            self._check_signed(arrival, sent)
            if self._is_blind(self._found()):
                self._check_free(arrival.dataset)
        except OdfBuildError as error:
            if is_outage(error):
                raise
            is_of_owner = isinstance(error, UnsignedUndoError)
            if not is_of_owner and self._is_blind(self._found()):
                raise _Refused(self._failed(_NOT_SIGNED)) from None
            if isinstance(error, SeedOverwriteError):
                raise _Refused(SeedBlockOverwriteRestricted()) from None
            if isinstance(error, ProtocolError | TransferError):  # of what was sent
                raise _Refused(self._failed(f"{error.code}: {error.what}")) from None
            raise
        if arrival.before != request.current_head:
            raise _Refused(InvalidHead(request.current_head, arrival.before))
        if not (arrival.leads_on or request.force_update_if_diverged):
            raise _Refused(self._failed(DivergedIntervalError.code))
        return arrival

    def _found(self) -> Dataset | None:
        """Return the dataset of the name; None also for one that is damaged and not to be read."""
        return self._served.find(self._push.caller, self._alias, self._workspace)

    def _check_free(self, id: DatasetId) -> None:
        """Raise AliasTakenError if the name is that of another dataset, be it damaged or not."""
        names = self._workspace.names()
        if names.get(self._alias, id) != id or self._alias in self._workspace.damaged_names():
            raise AliasTakenError(
                what=f"the name {self._alias} is taken",
                why="it is that of another dataset",
                fix="choose another name",
            )

    def _received(self, payload: bytes, count: int, folder: Path) -> Arrival:
        """Receive blocks, which are sent oldest first and checked newest first."""
        aside = folder / ".blocks"
        aside.mkdir()
        hashes = []
        for hash, data in unpack(payload, blocks=count, limits=self._limits.archive):
            self._served.check_lasting()
            (aside / str(hash)).write_bytes(data)
            hashes.append(hash)
        here = self._workspace.open(self._alias)
        arrival = receive_blocks(
            self._newest_first(aside, hashes), hashes[-1], here, folder, "the client"
        )
        shutil.rmtree(aside)
        return arrival

    def _newest_first(
        self, folder: Path, hashes: Sequence[Multihash]
    ) -> Iterator[tuple[Multihash, bytes]]:
        for each in reversed(hashes):
            self._served.check_lasting()
            yield each, read_regular(folder / str(each))

    def _check_signed(self, arrival: Arrival, sent: PushBlocks) -> None:
        """Check the signatures of the head, and whether they suffice for a caller without a token.

        An owner who cannot read the dataset, and so may not know its head, gets that head if it is
        in the chain that was sent, else only a message that it is not.
        """
        if sent.attestation is not None:
            state = arrival.state
            verified_attestation(
                sent.attestation.encode(), state.dataset, state.head, HEAD, state.sequence
            )
        here = self._workspace.open(self._alias)
        id = None if here is None else here.id
        if self._served.access.writes(self._push.caller, self._alias, id):
            return
        pushed = PushedHead(
            alias=self._alias,
            dataset=arrival.dataset,
            head=arrival.state.head,
            sequence=arrival.state.sequence,
            before=arrival.before,
            leads_on=arrival.leads_on,
            attestation=_as_bytes(sent.attestation),
            delegations=_as_bytes(sent.delegations),
        )
        try:
            self._judge.check(pushed, self._workspace.open(arrival.dataset))
        except HeadMovedError as moved:
            if self._is_blind(here) and not arrival.leads_on:
                raise _Refused(self._failed(DivergedIntervalError.code)) from None
            raise _Refused(InvalidHead(moved.expected, moved.actual)) from None

    # files

    async def _gather(self, arrival: Arrival) -> None:
        """Receive the files of an arrival, until the client reports that all were sent."""
        self._push.files = {(each.kind, each.hash): each for each in arrival.files}
        self._phase = Phase.OBJECTS_REQUEST
        self._served.uploads.begin(self._push)
        for _ in range(_ROUNDS):
            asked = await self._frames.receive(PushObjectsRequest)
            answer = await run_sync(self._strategies, arrival, asked.object_files)
            await self._frames.send(PushObjects(answer))
            if not asked.is_truncated:
                break
        self._phase = Phase.OBJECTS_UPLOAD_PROGRESS
        await self._wait_for_uploads()

    def _strategies(
        self, arrival: Arrival, asked: Sequence[ObjectFileReference]
    ) -> tuple[PushStrategy, ...]:
        self._served.access.check_push_access(self._push.caller, self._alias)
        self._check_names(arrival.dataset)
        here = self._workspace.open(arrival.dataset)
        lacking: set[tuple[str, Multihash]] = {
            (each.kind, each.hash) for each in missing_files(arrival, here)
        }
        return tuple(self._strategy(each, lacking, here) for each in asked)

    def _strategy(
        self,
        asked: ObjectFileReference,
        lacking: set[tuple[str, Multihash]],
        here: Dataset | None,
    ) -> PushStrategy:
        """Return what to do with a file of a block that was sent, or of an earlier one."""
        kind = "data" if asked.object_type is ObjectType.DATA_SLICE else "checkpoints"
        file = self._push.files.get((kind, asked.physical_hash))
        if file is None and here is not None:
            store = here.stores.data if kind == "data" else here.stores.checkpoints
            if store.has(asked.physical_hash):
                return PushStrategy(object_file=asked, push_strategy=PushMethod.SKIP)
        if file is None or file.size != asked.size:
            raise _Refused(self._failed(f"no block names {asked.physical_hash}"))
        if (kind, file.hash) not in lacking or self._served.uploads.has(self._alias, file):
            return PushStrategy(object_file=asked, push_strategy=PushMethod.SKIP)
        where = self._address_of(kind, file.hash, self._push.secret)
        return PushStrategy(
            object_file=asked, push_strategy=PushMethod.HTTP_UPLOAD, upload_to=where
        )

    def _check_names(self, id: DatasetId) -> None:
        """Refuse a dataset that exists under another name, and a name of another dataset."""
        names = self._workspace.names()
        if names.get(self._alias, id) != id:
            raise _Refused(NameCollision(str(self._alias)))
        if id in names.values() and self._alias not in names:
            raise _Refused(RefCollision(str(id)))

    async def _wait_for_uploads(self) -> None:
        """Request the client's progress until it reports that all files were sent."""
        end = time.monotonic() + self._limits.upload
        silent = 0.0
        while time.monotonic() < end:
            try:
                text = await self._frames.receive(PushProgress, self._limits.progress)
            except LateError:
                silent += self._limits.progress
                if silent > self._limits.message:
                    raise
                await self._frames.send(PushProgressRequest())
                continue
            silent = 0.0
            if isinstance(text.details, UploadsComplete):
                return
        raise LateError

    # the end

    async def _finish(
        self,
        request: PushRequest,
        arrival: Arrival,
        attestation: bytes | None,
        delegations: bytes | None,
    ) -> None:
        await self._frames.receive(PushCompleteRequest)
        self._phase = Phase.COMPLETE_REQUEST
        force = request.force_update_if_diverged
        await run_sync(self._commit, arrival, attestation, delegations, force)
        await self._frames.send(PushComplete())

    def _commit(
        self,
        arrival: Arrival,
        attestation: bytes | None,
        delegations: bytes | None,
        force: bool,
    ) -> None:
        """Make the pushed head that of the dataset.  Raises _Refused, late."""
        try:
            self._check_names(arrival.dataset)
            lease, _ = take_lease(
                self._workspace.root,
                _worker(),
                written=[self._alias],
                pause=self._waiting(),
                far=self._workspace.far_leases,
            )
            try:
                self._served.access.check_push_access(self._push.caller, self._alias)
                self._put(arrival, attestation, delegations, force)
            finally:
                lease.release()
        except _Refused as refused:
            raise _Refused(refused.failure, late=True) from None
        except AliasTakenError:
            raise _Refused(NameCollision(str(self._alias)), late=True) from None
        except AccessError as error:
            raise _Refused(self._failed(error.text), late=True) from None
        except (OdfBuildError, OSError) as error:
            code = _error_text(error)
            if not isinstance(error, HeadMovedError) and self._was_moved(arrival):
                code = HeadMovedError.code
            raise _Refused(self._failed(code), late=True) from error

    def _put(
        self,
        arrival: Arrival,
        attestation: bytes | None,
        delegations: bytes | None,
        force: bool,
    ) -> None:
        uploads = self._served.uploads
        here = self._workspace.open(arrival.dataset)
        for each in missing_files(arrival, here):
            uploads.link(self._alias, each, arrival.folder)  # intake reports missing files
        if delegations is not None:
            aside = LocalAttestations(arrival.folder / "attestations")
            kept = aside if here is None else here.stores.attestations
            keep_delegations(kept, delegations, arrival.dataset)
        is_new = here is None
        if is_new and self._visibility is Visibility.PRIVATE:  # before it becomes visible
            self._served.access.note(arrival.dataset, self._visibility)
        put_in_place(self._workspace, arrival, self._alias, attestation, force=force)
        if is_new:
            self._served.access.note(arrival.dataset, self._visibility)
        uploads.forget(self._alias, self._push.files)
        self._served.note_change()

    def _waiting(self) -> Callable[[float], None]:
        """Return a function that waits between two checks whether a run, or another push, is done.

        It raises BusyError after too long a time.
        """
        end = time.monotonic() + self._limits.busy

        def pause(seconds: float) -> None:
            if time.monotonic() > end:
                raise BusyError({self._alias: None})
            far = self._workspace.far_leases
            time.sleep(min(seconds, _PAUSE if far is None else _FAR_PAUSE))

        return pause

    def _was_moved(self, arrival: Arrival) -> bool:
        """Return whether the head was changed by somebody else."""
        with suppress(OdfBuildError, OSError):
            return self._workspace.dataset(arrival.dataset).head() != arrival.before
        return False

    def _failed(self, text: str) -> TransferFailed:
        return TransferFailed(phase=PushPhase(self._phase), error_message=text)


def _as_bytes(envelope: str | None) -> bytes | None:
    return None if envelope is None else envelope.encode()


def _error_text(error: Exception) -> str:
    """Return the text of an error for a client: its code, as a reason of a close must be short."""
    if isinstance(error, AccessError):
        return error.text
    if isinstance(error, MalformedMessageError):
        return error.code
    return str(getattr(error, "code", "i-o-error"))


def _worker() -> Worker:
    user = "-"
    with suppress(KeyError, OSError):
        user = getpass.getuser()
    return Worker(
        user=user,
        host=socket.gethostname(),
        pid=os.getpid(),
        since=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        command="serve",
    )
