"""Links in a checkout: nothing is written through one, as it may have come with a pull request.

A checkout is the folder of a git repository, or of a project where there is none.  Links above it,
and those in folders that belong to no checkout, are the user's own.
"""

from pathlib import Path

from odfbuild.errors import ProjectError
from odfbuild.project import PROJECT_FILE


class CheckoutLinkError(ProjectError):
    """A file would be written through a link in a checkout."""

    code = "checkout-link"


def refuse_links(path: Path, *, may_stay: bool = False) -> None:
    """Raise CheckoutLinkError if a path to write leads through a link in its checkout.

    The path may itself be the link, and need not exist.  With `may_stay` it may lead through links
    to a file of the same checkout: definitions are edited where they are.
    """
    above = [*reversed(path.absolute().parents), path.absolute()]
    root = _checkout(above[:-1])
    if root is None or (may_stay and path.resolve().is_relative_to(root.resolve())):
        return
    link = next((each for each in above[above.index(root) + 1 :] if each.is_symlink()), None)
    if link is not None:
        raise CheckoutLinkError(
            what=f"{path} is not written: {link} is a link",
            why="it is in a checkout, and may come from someone else's change: the output would "
            "be written to its target",
            fix=f"delete the link, or name its target: {path.resolve()}",
        )


def _checkout(folders: list[Path]) -> Path | None:
    """Return the innermost repository of folders that lie in one another, else the project.

    What lies behind a link in a checkout is none of its own, whatever it holds.
    """
    repository = project = None
    for each in folders:
        if (repository or project) and each.is_symlink():
            break
        repository = each if (each / ".git").exists() else repository
        project = each if (each / PROJECT_FILE).exists() else project
    return repository or project
