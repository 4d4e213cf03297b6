"""Parameters of addresses: blocks, counts and times."""

import re
from typing import TYPE_CHECKING

from odfbuild.odf.identity import InvalidMultihashError, Multihash
from odfbuild.odf.timestamp import InvalidTimestampError, Timestamp
from odfbuild.serve.access import AccessError
from odfbuild.state.chain.dataset import Dataset, holds

if TYPE_CHECKING:
    from starlette.requests import Request

_DIGITS = 9
_OFFSET_DIGITS = 18
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def block_of(request: "Request", name: str, dataset: Dataset) -> Multihash | None:
    """Return the block that a parameter names, None without it.  Raises AccessError (400, 404)."""
    given = request.query_params.get(name)
    if given is None:
        return None
    try:
        block = Multihash.parse(given)
    except InvalidMultihashError:
        raise AccessError(400, f"{name} is not the hash of a block.") from None
    head = dataset.head()
    if head is None or not holds(dataset, block, head):
        raise AccessError(404, "The dataset has no such block.")
    return block


def offset_of(request: "Request") -> int:
    """Return the parameter `offset`.  Raises AccessError (400) without it."""
    given = request.query_params.get("offset", "")
    if not given.isascii() or not given.isdigit() or len(given) > _OFFSET_DIGITS:
        raise AccessError(400, "offset is the number of a row, from 0.")
    return int(given)


def count_of(request: "Request", name: str, default: int, most: int | None) -> int:
    """Return the number of a parameter, `most` at most.  Raises AccessError (400)."""
    given = request.query_params.get(name)
    if given is None:
        return default
    if not given.isascii() or not given.isdigit() or len(given) > _DIGITS:
        raise AccessError(400, f"{name} is not a number.")
    return int(given) if most is None else min(int(given), most)


def switch_of(request: "Request", name: str) -> bool:
    """Return whether a parameter is `true`; it may be left out.  Raises AccessError (400)."""
    given = request.query_params.get(name, "false")
    if given not in ("true", "false"):
        raise AccessError(400, f"{name} is true or false.")
    return given == "true"


def time_of(request: "Request", name: str) -> Timestamp | None:
    """Return the instant of a parameter, or that at which its day begins, None without it.

    Raises AccessError (400).
    """
    given = request.query_params.get(name)
    if given is None:
        return None
    try:
        return Timestamp.parse(f"{given}T00:00:00Z" if _DAY.fullmatch(given) else given)
    except InvalidTimestampError:
        raise AccessError(400, f"{name} is a time such as 2024-03-01T12:00:00Z.") from None
