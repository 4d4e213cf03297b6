"""The example of the page on lineage runs as it is."""

import subprocess
import sys
from pathlib import Path

from tests.support.projects import REPOSITORY, environment


def test_the_example_of_the_page_runs(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "lineage.md").read_text("utf-8")
    (example,) = [part.partition("```")[0] for part in page.split("```python\n")[1:]]
    done = subprocess.run(
        [sys.executable, "-c", example],
        cwd=tmp_path,
        env=environment(PYTHONPATH=str(REPOSITORY)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "lineage.sqlite").exists()
