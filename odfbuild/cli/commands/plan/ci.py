"""odfbuild ci comment and summary: what a pull request or a run of CI shows of a saved plan."""

import sys
from pathlib import Path

from odfbuild.cli import exits
from odfbuild.cli.formats import markdown
from odfbuild.cli.saved import load_plan


def write_comment(path: Path, max_bytes: int, marker: str) -> int:
    """Print the body of a comment, in front a hidden marker by which the comment is found again."""
    sys.stdout.write(markdown.render(load_plan(path), max_bytes, marker=marker))
    return exits.DONE


def write_summary(path: Path, max_bytes: int) -> int:
    """Print the page that a run of CI shows."""
    sys.stdout.write(markdown.render(load_plan(path), max_bytes))
    return exits.DONE
