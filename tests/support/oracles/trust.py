"""Who is believed, written from the page on signatures: plain facts in, a word out.

Keys are words: the dataset's own is `owner`.  A chain is a text whose letters are its blocks, so a
block is known by the text up to it, and comes before those that begin with it.  Times are days.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Leave:
    """A delegation: by whom it is signed, of which dataset, to whom, when, and its serial."""

    by: str
    dataset: str
    to: str
    first: int
    last: int
    serial: int


@dataclass(frozen=True, kw_only=True)
class Said:
    """A statement, who signed it, and whether its bytes are as they were signed."""

    dataset: str
    ref: str
    head: str
    number: int
    day: int
    signers: frozenset[str]
    previous: str | None = None
    undoes: str | None = None
    expires: int | None = None
    leave: Leave | None = None
    is_whole: bool = True


@dataclass(frozen=True, kw_only=True)
class Remembered:
    """What a reader accepted last: its head, the day of its statement if it was signed, and heads
    that were given up before.
    """

    head: str
    signed: int | None
    undone: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What a place shows to a reader, and what the reader asks for."""

    head: str
    said: dict[str, Said]
    known: Remembered | None
    trust: str
    witnesses: frozenset[str]
    today: int
    withdrawn: dict[str, int] = field(default_factory=dict)


def outcome(shown: Shown) -> str:
    """Return the code of the refusal, or `accepted`."""
    said = shown.said.get(shown.head)
    if said is not None and not _holds(said, shown.head):
        if shown.trust != "any":
            return "bad-signature"
        said = None
    leads = said is not None and _speaks(said, shown.withdrawn)
    vouched = leads or (said is not None and bool(said.signers & shown.witnesses))
    unvouched = "unsigned-head" if said is None else "untrusted-key"
    if shown.trust == "signed" and not vouched:
        return unvouched
    known = shown.known
    if known is not None:
        goes_on = shown.head.startswith(known.head)
        revived = any(shown.head.startswith(each) for each in known.undone)
        if (not goes_on or revived) and not (said and leads and _leads_back(shown, said, known)):
            if goes_on or len(shown.head) < len(known.head):
                return "head-rolled-back"
            same = len(shown.head) == len(known.head)
            return "head-equivocated" if same else "history-rewritten"
        was_signed = known.signed is not None and known.head != shown.head
        if shown.trust == "remembered" and was_signed and not vouched:
            return unvouched
    expired = said is not None and said.expires is not None and shown.today > said.expires
    return "statement-expired" if shown.trust == "signed" and expired else "accepted"


def _holds(said: Said, head: str) -> bool:
    """The bytes are those that were signed, and they are about this head of this dataset."""
    about = (said.dataset, said.ref, said.head, said.number)
    own = said.leave is None or said.leave.by == said.leave.dataset
    return said.is_whole and own and about == ("owner", "head", head, len(head) - 1)


def _speaks(said: Said, withdrawn: dict[str, int]) -> bool:
    """The dataset's key signed, or one that it delegates to at the time and did not withdraw."""
    leave = said.leave
    return "owner" in said.signers or (
        leave is not None
        and leave.dataset == "owner"
        and leave.to in said.signers
        and leave.first <= said.day <= leave.last
        and leave.serial > withdrawn.get(leave.to, -1)
    )


def _leads_back(shown: Shown, said: Said, known: Remembered) -> bool:
    """The statements lead back to the known head, and one of them gives something up."""
    if known.signed is not None and said.day < known.signed:
        return False
    gives_up, met = False, set()
    at: Said | None = said
    while at is not None and at.head not in met:
        met.add(at.head)
        gives_up |= at.undoes is not None
        if known.head in (at.previous, at.undoes):
            return gives_up
        before = shown.said.get(at.previous) if at.previous is not None else None
        if before is None or not _holds(before, at.previous or "") or before.head in met:
            return False
        at = before if _speaks(before, shown.withdrawn) else None
    return False
