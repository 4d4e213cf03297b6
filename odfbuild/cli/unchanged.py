"""What is said when there is nothing to do.  It is said most often, so it needs nothing else."""

__all__ = ["no_changes"]


def no_changes(datasets: int) -> str:
    """Return the line for a project that has nothing to do, without a line end."""
    noun = "dataset matches" if datasets == 1 else "datasets match"
    return f"No changes. {datasets:,} {noun} the project."
