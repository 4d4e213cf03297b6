"""Addresses of object stores in settings: of workspaces, jobs, and files for a cluster."""

from pathlib import Path

import pytest

from odfbuild.errors import ProjectErrors
from odfbuild.project.config.project_file import load_config
from odfbuild.project.config.targets import is_store


@pytest.mark.parametrize(
    ("address", "is_one"),
    [
        ("s3://bucket", True),
        ("s3://bucket/a/b/", True),
        ("s3://bucket/.hidden/..a/b..", True),
        ("s3+http://127.0.0.1:8333/bucket/a", True),
        ("s3+https://h.example/bucket", True),
        ("s3://bucket/a/../b", False),
        ("s3://bucket/.", False),
        ("s3://bucket/a/..", False),
        ("s3+http://h.example/bucket/../a", False),
        ("s3://u:p@bucket/a", False),
        ("s3://bucket/a?b", False),
        ("s3://bucket//a", False),
        ("gs://bucket/a", False),
        ("bucket/a", False),
    ],
)
def test_an_address_names_a_bucket_and_a_prefix_without_detours(address: str, is_one: bool) -> None:
    assert is_store(address) is is_one


def test_files_for_a_cluster_are_in_a_store_or_nowhere(tmp_path: Path) -> None:
    (tmp_path / "datasets").mkdir()
    text = "odfbuild: 1\nname: p\nengine: {spark: {objects: %s}}\n"
    (tmp_path / "odfbuild.yaml").write_text(text % "'s3://files/p'", "utf-8")
    assert load_config(tmp_path).target(None).spark.objects == "s3://files/p"
    (tmp_path / "odfbuild.yaml").write_text(text % "'/srv/files'", "utf-8")
    with pytest.raises(ProjectErrors) as caught:
        load_config(tmp_path)
    assert "'/srv/files' is not a prefix of an object store" in str(caught.value)
