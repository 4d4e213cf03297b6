"""Errors of a place elsewhere: a repository, a server, an object store."""

from odfbuild.errors import StateError


class TransferError(StateError):
    """A chain cannot be transferred."""

    code = "transfer"


class UnreachableRepositoryError(TransferError):
    """A repository did not answer, or its answer does not follow the protocol."""

    code = "unreachable-repository"


class RefusedByRepositoryError(TransferError):
    """A repository does not let this user read or write."""

    code = "refused-by-repository"


class BrokenSourceError(TransferError):
    """A repository lacks a block or file that its chain names, or returns other bytes."""

    code = "broken-source"


def missing_file(place: str, path: str) -> BrokenSourceError:
    """Return the error that a file is missing of which the chain speaks."""
    return BrokenSourceError(
        what=f"{place}{path} is missing",
        why="its head, or a block of its chain, names it",
        fix="try again; if it persists, the copy there is damaged: ask its owner",
    )
