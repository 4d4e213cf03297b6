"""A pull over a WebSocket: the plan, the blocks, and the URLs of their files."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from anyio.to_thread import run_sync

from odfbuild.errors import OdfBuildError
from odfbuild.odf.identity import Multihash
from odfbuild.repositories.protocol import ObjectFile
from odfbuild.repositories.smart.archive import pack
from odfbuild.repositories.smart.messages import (
    U32,
    InvalidInterval,
    MalformedMessageError,
    MetadataBlocksBatch,
    ObjectFileReference,
    ObjectType,
    Phase,
    PullBlocks,
    PullBlocksRequest,
    PullObjects,
    PullObjectsRequest,
    PullPhase,
    PullPlan,
    PullRequest,
    PullStrategy,
    TransferFailed,
    TransferUrl,
)
from odfbuild.serve.files.place import ServedPlace
from odfbuild.serve.limits import ServerLimits
from odfbuild.serve.smart.frames import Frames, HungUpError, LateError
from odfbuild.serve.smart.interval import BlockInterval, NoIntervalError, block_interval
from odfbuild.state.chain.dataset import Dataset, NotInChainError, holds

_SHORT: Final = 1 << 16  # characters of a message without a list
_REFERENCE: Final = 512  # characters for a requested file; a block has two at most

AddressOf = Callable[[str, Multihash], TransferUrl]
"""Returns the URL of a file, by its folder and hash."""


async def answer_pull(
    frames: Frames,
    dataset: Dataset,
    address_of: AddressOf,
    limits: ServerLimits,
    check_access: Callable[[], None],
    place: ServedPlace,
) -> None:
    """Conduct the conversation of a pull.

    Before each answer, `check_access` raises AccessError if the caller may no longer read.
    """
    phase, most = Phase.INITIAL_REQUEST, limits.archive.bytes
    try:
        request = await frames.receive(PullRequest, limits.request, most=_SHORT)
        await run_sync(check_access)
        found = await place.reading(_interval, dataset, request, most)
        if not isinstance(found, BlockInterval):
            await frames.send(found)
            return
        await frames.send(PullPlan(found.plan))
        phase = Phase.METADATA_REQUEST
        if found.blocks:
            await frames.receive(PullBlocksRequest, most=_SHORT)
            await run_sync(check_access)
            await frames.send(PullBlocks(await run_sync(_batch, found)))
        files = found.files
        del found
        phase = Phase.OBJECTS_REQUEST
        longest = _SHORT + _REFERENCE * 2 * await place.reading(_length, dataset)
        while True:
            asked = await frames.receive(PullObjectsRequest, most=longest)
            await run_sync(check_access)
            places = await place.reading(_places, asked.object_files, files, dataset, address_of)
            await frames.send(PullObjects(places))
    except HungUpError:
        return
    except LateError:
        await frames.fail(_failed(phase, "no message arrived in time"))
    except MalformedMessageError:
        await frames.fail(_failed(phase, MalformedMessageError.code))
    except (OdfBuildError, OSError) as error:
        await frames.fail(_failed(phase, getattr(error, "code", "i-o-error")))


def _interval(
    dataset: Dataset, request: PullRequest, most: int
) -> BlockInterval | InvalidInterval | TransferFailed:
    head = dataset.head()
    stop = head if request.stop_at is None else request.stop_at
    if head is None or stop is None or not holds(dataset, stop, head):
        return _failed(Phase.INITIAL_REQUEST, f"{NotInChainError.code}: {stop}")
    whole = request.force_update_if_diverged
    try:
        return block_interval(dataset, stop, request.begin_after, most, whole=whole)
    except NoIntervalError:
        assert request.begin_after is not None  # noqa: S101 - a chain goes back to its Seed
        return InvalidInterval(head=stop, tail=request.begin_after)
    except ValueError as error:
        return _failed(Phase.INITIAL_REQUEST, f"too large: {error}; use the simple protocol")


def _batch(found: BlockInterval) -> MetadataBlocksBatch:
    return MetadataBlocksBatch(num_blocks=U32(len(found.blocks)), payload=pack(found.blocks))


def _places(
    asked: Sequence[ObjectFileReference],
    files: Mapping[tuple[str, Multihash], ObjectFile],
    dataset: Dataset,
    address_of: AddressOf,
) -> tuple[PullStrategy, ...]:
    """Return the URLs of requested files.

    They may also be files of blocks before this pull, which a client may have without their files.
    Raises MalformedMessageError for files that do not exist or are named twice.
    """
    if len({(each.object_type, each.physical_hash) for each in asked}) < len(asked):
        raise MalformedMessageError("request", "a file is requested twice")
    places = []
    for each in asked:
        kind = "data" if each.object_type is ObjectType.DATA_SLICE else "checkpoints"
        known = files.get((kind, each.physical_hash))
        if known is not None and known.size != each.size:
            raise MalformedMessageError("request", f"{each.physical_hash} has {known.size} bytes")
        store = dataset.stores.data if kind == "data" else dataset.stores.checkpoints
        if known is None and not store.has(each.physical_hash):
            raise MalformedMessageError("request", f"{each.physical_hash} does not exist")
        where = address_of(kind, each.physical_hash)
        places.append(PullStrategy(object_file=each, download_from=where))
    return tuple(places)


def _length(dataset: Dataset) -> int:
    """Return how many blocks a dataset has."""
    state = dataset.state()
    return 0 if state is None else state.sequence + 1


def _failed(phase: Phase, text: str) -> TransferFailed:
    return TransferFailed(phase=PullPhase(phase), error_message=text)
