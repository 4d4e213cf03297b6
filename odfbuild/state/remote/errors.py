"""Errors of a place elsewhere: a repository, a server, an object store."""

from odfbuild.errors import StateError


class TransferError(StateError):
    """A chain cannot be moved from one place to another."""

    code = "transfer"


class UnreachableRepositoryError(TransferError):
    """A repository gave no answer, or one that is not of the protocol."""

    code = "unreachable-repository"


class RefusedByRepositoryError(TransferError):
    """A repository does not let this user read or write."""

    code = "refused-by-repository"


class BrokenSourceError(TransferError):
    """A repository lacks a block or file that its chain speaks of, or gives other bytes."""

    code = "broken-source"


def missing_file(place: str, path: str) -> BrokenSourceError:
    """Return the error that a file is missing of which the chain speaks."""
    return BrokenSourceError(
        what=f"{place}{path} is missing",
        why="its head, or a block of its chain, speaks of it",
        fix="try again; if it stays so, the copy there is damaged: ask who keeps it",
    )
