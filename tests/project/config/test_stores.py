"""Addresses of object stores in settings: of workspaces, jobs, and files for a cluster."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfbuild.errors import ProjectErrors
from odfbuild.project.config.project_file import load_config
from odfbuild.project.config.repositories import is_store, url_problem
from odfbuild.state.remote.store.credentials import StoreAccess
from odfbuild.state.remote.store.place import PATTERNS, StorePlace
from odfbuild.state.remote.store.services import opened
from tests.support.projects import REPOSITORY


def project_schema() -> Any:
    return json.loads((REPOSITORY / "schemas" / "project.schema.json").read_text())


def workspace_patterns() -> list[str]:
    """Return the patterns of a schema that name a workspace in a store."""
    schemas = project_schema()["$defs"]
    places = schemas["target"]["properties"]["workspace"]["allOf"][1]["anyOf"]
    assert places[1:] == [{"$ref": "#/$defs/store"}]
    return [each["pattern"] for each in schemas["store"]["anyOf"]]


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
        ("s3://old_bucket/a", True),
        ("s3://Bucket/a", False),
        ("s3://bucket:443/a", False),
        ("s3://bucket./a", False),
        ("s3+http://store_1:9000/My_Bucket/a", True),
        ("s3+http://[::1]:9000/bucket/a", True),
        ("s3+http://[fd00:1::2:3]/bucket/a", True),
        ("s3+http://[1:2]/bucket/a", False),
        ("s3+http://h.example/%62ucket/a", False),
        ("s3+http://h.example:080/bucket/a", False),
        ("gs://bucket/a/b/", True),
        ("gs://my_bucket.example.org", True),
        ("gs+http://127.0.0.1:4443/my_bucket/a", True),
        ("gs+https://h.example/bucket", True),
        ("gs://Bucket/a", False),
        ("gs://b/a", False),
        ("gs://-bucket/a", False),
        ("gs://bucket:443/a", False),
        ("gs://u:p@bucket/a", False),
        ("gs://bucket/a/../b", False),
        ("gs://bucket//a", False),
        ("gs+https://h.example", False),
        ("gs+https://storage.googleapis.com/bucket/a", False),
        ("gs+ftp://h.example/bucket", False),
        ("az+https://acme.blob.core.windows.net/lake/a/b", True),
        ("az+https://acme.blob.core.windows.net/lake/", True),
        ("az+http://127.0.0.1:10000/acme/lake/a", True),
        ("az+https://acme.blob.core.windows.net/", False),
        ("az+https://acme.blob.core.windows.net/la/a", False),
        ("az+https://acme.blob.core.windows.net/lake--two/a", False),
        ("az+https://acme.blob.core.windows.net/lake/../a", False),
        ("az+https://acme.blob.core.windows.net/lake?sv=1", False),
        ("az+https://acme:key@acme.blob.core.windows.net/lake", False),
        ("az+http://127.0.0.1:10000/acme", False),
        ("az://lake/a", False),
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


STARTS = st.sampled_from([
    "s3://bucket", "s3://b-", "s3+http://h.example:9000/bucket", "s3+https://h/bucket",
    "s3://old_bucket", "s3://Bucket", "s3://bucket.", "s3://b", "s3+http://store_1/My_Bucket",
    "s3+http://[::1]:9000/bucket", "s3+http://[fd00:1::2:3]/bucket", "s3+http://[1:2]/bucket",
    "s3+http://[::1/bucket", "s3+http://h/-bucket", "s3+http://h/b", "s3+http://h:080/bucket",
    "s3+http://h", "s3:", "s3+http://h:65536/bucket", "s3+http://h:0/bucket", "s3+http://h-/bucket",
    "s3+http://../bucket", "az+https://acme.blob.core.windows.net/lake",
    "az+https://acme.blob.core.windows.net", "az+https://acme.z01.blob.storage.azure.net/lake",
    "az+http://127.0.0.1:10000/acme/lake", "az+https://h.example/acme", "az+http://h-/acme/lake",
    "az+http://H/acme/lake", "az+https://acme.blob.local.azurestack.external/lake",
    "az+https://acme.blob.h:443/lake", "az+https://acme.blob.core.windows.net:443/lake",
    "az+https://ACME.blob.core.windows.net/lake",
    "az+https://acme-secondary.blob.core.windows.net/lake",
    "az+http://acme.blob.core.windows.net/lake", "az+https://acme.dfs.core.windows.net/lake",
    "az+https://windows.net/acme/lake", "az+https://h//acme/lake",
    "az+https://acme.blob.core.windows.net./lake", "az+https://acme.blob.-/lake",
    "az+http://h/acme%2Flake", "gs://bucket", "gs://b_k.t-1", "gs://b.", "gs://a..b", "gs://B",
    "gs:", "gs://bucket:443", "gs+http://127.0.0.1:4443/bucket", "gs+https://h/b_k.t",
    "gs+https://h", "gs+http://H/bucket", "gs+http://h/b_", "gs+http://h:0/bucket",
    "gs+https://storage.googleapis.com/bucket", "gs+https://storage.googleapis.com:443/bucket",
    "gs+https://storage.googleapis.com.h/bucket", "gs://a%2Fb", "gs+http://h/bucket%2Fa",
])  # fmt: skip
NAMES = st.sampled_from([
    "", "a", ".", "..", ".a", "%2e", "%2E%2e", "a%2Fb", "a%2F..%2Fb", "%2F", "a%b", "%00", "%0a",
    "a\\b", "a b", "%20", "+", "é", "%FF", "a%25b", "~", "a@b", "a:b", "a?b", "a#b", "a;b", "acme",
])  # fmt: skip


@settings(max_examples=1000)
@given(STARTS, st.lists(NAMES, max_size=4))
def test_a_store_that_settings_take_is_one_that_a_client_reaches(
    start: str, names: list[str]
) -> None:
    url = "/".join([start, *names])
    allowed = any(re.search(each, url) for each in workspace_patterns())
    assert is_store(url) is allowed
    assert (url_problem(url) is None) is allowed
    if not is_store(url):
        return
    assert url_problem(url) is None
    place = StorePlace.of(url)
    assert not {"", ".", ".."} & {*place.prefix.split("/")} or not place.prefix
    assert "/" not in place.bucket
    assert opened(place, None if place.kind == "s3" else StoreAccess({"skip_signature": True}))


def test_settings_and_schema_have_the_same_patterns_of_stores() -> None:
    assert tuple(workspace_patterns()) == PATTERNS


@pytest.mark.parametrize(
    "server",
    [
        "az+https://acme.dfs.core.windows.net",
        "az+https://acme-secondary.blob.core.windows.net",
        "az+https://acme.blob.core.windows.net:443",
        "az+https://Acme.blob.core.windows.net",
        "az+http://acme.blob.core.windows.net",
        "az+https://acme.z1.blob.storage.azure.net",
        "az+https://acme.file.core.chinacloudapi.cn",
    ],
)
def test_another_server_of_azure_is_refused_with_how_a_container_is_reached(
    server: str, tmp_path: Path
) -> None:
    problem = url_problem(f"{server}/lake/markets")
    assert problem is not None
    assert "ACCOUNT.blob.core.windows.net, in small letters, over https" in problem[1]
    (tmp_path / "datasets").mkdir()
    text = f"odfbuild: 1\nname: p\ntargets:\n  dev: {{workspace: '{server}/lake/acme/markets'}}\n"
    (tmp_path / "odfbuild.yaml").write_text(text, "utf-8")
    with pytest.raises(ProjectErrors) as caught:
        load_config(tmp_path)
    assert "in small letters, over https" in caught.value.why


@pytest.mark.parametrize(
    ("path", "server", "account", "container"),
    [
        ("/lake/a", "acme.blob.core.windows.net", "acme", "lake"),
        ("/lake", "acme.z42.blob.storage.azure.net", "acme", "lake"),
        ("/lake/a", "acme.blob.h.example:8443", "acme", "lake"),
        ("/lake/a", "h.example/acme", "acme", "lake"),
    ],
)
def test_a_url_of_azure_names_a_server_an_account_and_a_container(
    path: str, server: str, account: str, container: str
) -> None:
    url = f"az+https://{server}{path}"
    place = StorePlace.of(url)
    assert is_store(url)
    found = (place.server, place.account, place.bucket)
    assert found == (f"https://{server}", account, container)
    assert place.is_of_azure is (".windows.net" in server or ".azure.net" in server)


@pytest.mark.parametrize("server", ["", ":443", "."])
def test_another_address_of_google_is_refused_with_how_a_bucket_is_named(server: str) -> None:
    problem = url_problem(f"gs+https://storage.googleapis.com{server}/bucket/a")
    assert problem is not None
    assert problem[1] == "a bucket there is gs://BUCKET/PREFIX"


def test_stores_of_two_kinds_are_never_taken_for_one() -> None:
    one = StorePlace.of("az+https://h.example/acme/lake")
    other = StorePlace.of("s3+https://h.example/acme/lake")
    third = StorePlace.of("gs+https://h.example/acme/lake")
    places = [one, other, third, *map(StorePlace.of, ("s3://acme/lake", "gs://acme/lake"))]
    assert len({each.store for each in places}) == 5
    assert one.store.startswith("az+")
    assert [each.store for each in places[2:]] == [
        "gs+https://h.example/acme", "s3://acme", "gs://acme"
    ]  # fmt: skip


def test_files_for_a_cluster_are_in_a_store_or_nowhere(tmp_path: Path) -> None:
    (tmp_path / "datasets").mkdir()
    text = "odfbuild: 1\nname: p\nengine: {spark: {objects: %s}}\n"
    for place in ("s3://files/p", "az+https://acme.blob.core.windows.net/lake/p", "gs://files/p"):
        (tmp_path / "odfbuild.yaml").write_text(text % f"'{place}'", "utf-8")
        assert load_config(tmp_path).target(None).spark.objects == place
    server = "odfbuild: 1\nname: p\nengine: {spark: {master: 'sc://h', objects: 's3://files/p'}}\n"
    (tmp_path / "odfbuild.yaml").write_text(server, "utf-8")
    assert load_config(tmp_path).target(None).spark.objects == "s3://files/p"
    (tmp_path / "odfbuild.yaml").write_text(text % "'/srv/files'", "utf-8")
    with pytest.raises(ProjectErrors) as caught:
        load_config(tmp_path)
    assert "'/srv/files' is not a prefix of an object store" in str(caught.value)
    place = "az+https://acme.dfs.core.windows.net/lake"
    (tmp_path / "odfbuild.yaml").write_text(text % f"'{place}'", "utf-8")
    with pytest.raises(ProjectErrors) as caught:
        load_config(tmp_path)
    assert f"'{place}' is not a prefix of an object store" in str(caught.value)
    assert "in small letters, over https" in caught.value.why
