"""Addresses of object stores in settings: of workspaces, jobs, and files for a cluster."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.errors import ProjectErrors
from odfbuild.project.config.project_file import load_config
from odfbuild.project.config.repositories import url_problem
from odfbuild.project.config.targets import is_store
from odfbuild.state.remote.s3 import Bucket, bucket_of
from tests.support.projects import REPOSITORY


def project_schema() -> Any:
    return json.loads((REPOSITORY / "schemas" / "project.schema.json").read_text())


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
        ("s3://bucket/a%2F..%2Fb", False),
        ("s3://bucket/%2e%2e/b", False),
        ("s3://bucket/a%2F%2Fb", False),
        ("s3://bucket/a%b", False),
        ("s3://bucket/a%20b", True),
    ],
)
def test_an_address_names_a_bucket_and_a_prefix_without_detours(address: str, is_one: bool) -> None:
    assert is_store(address) is is_one


STARTS = st.sampled_from(
    ["s3://bucket", "s3+http://h.example:9000/bucket", "s3+https://h/bucket", "s3+http://h", "s3:"]
)
NAMES = st.sampled_from([
    "", "a", ".", "..", ".a", "%2e", "%2E%2e", "a%2Fb", "a%2F..%2Fb", "%2F", "a%b", "%00", "%0a",
    "a\\b", "a b", "%20", "+", "é", "%FF", "a%25b", "~", "a@b", "a:b", "a?b", "a#b", "a;b",
])  # fmt: skip


@given(STARTS, st.lists(NAMES, max_size=4))
def test_a_store_that_settings_take_is_one_that_a_client_reaches(
    start: str, names: list[str]
) -> None:
    url = "/".join([start, *names])
    patterns = project_schema()["$defs"]["target"]["properties"]["workspace"]["allOf"][1]["anyOf"]
    allowed = any(re.search(each["pattern"], url) for each in patterns[1:])
    if not is_store(url):
        return
    assert allowed and url_problem(url) is None
    _, _, prefix = bucket_of(url)
    assert not {"", ".", ".."} & {*prefix.split("/")} or not prefix
    assert Bucket(url).place == url


def test_files_for_a_cluster_are_in_a_store_or_nowhere(tmp_path: Path) -> None:
    (tmp_path / "datasets").mkdir()
    text = "odfbuild: 1\nname: p\nengine: {spark: {objects: %s}}\n"
    (tmp_path / "odfbuild.yaml").write_text(text % "'s3://files/p'", "utf-8")
    assert load_config(tmp_path).target(None).spark.objects == "s3://files/p"
    (tmp_path / "odfbuild.yaml").write_text(text % "'/srv/files'", "utf-8")
    with pytest.raises(ProjectErrors) as caught:
        load_config(tmp_path)
    assert "'/srv/files' is not a prefix of an object store" in str(caught.value)
