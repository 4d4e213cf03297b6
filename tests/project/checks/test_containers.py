"""Sources that are containers: which images are warned of."""

from pathlib import Path

import pytest

from odfbuild.project.load import load_project
from tests.support.process.inside import lay_out

SOURCE = """
kind: DatasetSnapshot
version: 1
content:
  name: a
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch: {{kind: Container, image: '{image}'}}
      read: {{kind: Csv, schema: [k STRING]}}
      merge: {{kind: Append}}
"""
PINNED = "ghcr.io/me/it@sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("image", "warned"),
    [("it", True), ("it:1", True), (PINNED, False), ("${{ env.IMAGE }}", False)],
)
def test_an_image_that_may_become_another_is_warned_of(
    tmp_path: Path, image: str, warned: bool
) -> None:
    project = load_project(lay_out(tmp_path, {"datasets/a.yaml": SOURCE.format(image=image)}))
    codes = [each.code for each in project.notes]
    assert codes == (["image-not-pinned"] if warned else [])
