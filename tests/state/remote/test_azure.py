"""Azure Blob Storage: who gets credentials, and what its answers mean."""

import base64
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from odfbuild.state.remote.client import UNCHANGED
from odfbuild.state.remote.errors import (
    BrokenSourceError,
    RefusedByRepositoryError,
    UnreachableRepositoryError,
)
from odfbuild.state.remote.store import bucket as module
from odfbuild.state.remote.store.azure import azure_access
from odfbuild.state.remote.store.bucket import Bucket, MissingBucketError
from odfbuild.state.remote.store.credentials import StoreCredentialsError, UntrustedStoreError
from odfbuild.state.remote.store.place import StorePlace
from odfbuild.texts.known_secrets import hidden
from tests.state.remote.scripted import (
    Answer,
    ScriptedServer,
    azure_error,
    serving_script,
)
from tests.support.servers.azure import AzureServer
from tests.support.servers.object_store import ObjectServer

SIGNATURE = "c2lnbmF0dXJlIG9mIHRoZSBub3J0aA/+="
QUOTED = "c2lnbmF0dXJlIG9mIHRoZSBub3J0aA%2F%2B%3D"
SAS = f"sv=2021-08-06&ss=b&srt=sco&se=2099-01-01T00:00:00Z&sp=rwdlac&sig={QUOTED}"
KEY = base64.b64encode(b"key of the north " * 4).decode()
SECRET = "hunter2-of-the-north"
NAME = "AZURE_STORAGE_ACCOUNT_NAME"
TRANSFERABLE: dict[str, dict[str, str]] = {
    "sas": {"AZURE_STORAGE_SAS_TOKEN": SAS},
    "sas key": {"AZURE_STORAGE_SAS_KEY": f"?{SAS}\n"},
    "token": {"AZURE_STORAGE_TOKEN": SECRET},
    "client": {
        "AZURE_TENANT_ID": "tenant",
        "AZURE_CLIENT_ID": "client",
        "AZURE_CLIENT_SECRET": SECRET,
    },
    "machine": {},
    "az": {"AZURE_USE_AZURE_CLI": "true"},
}
CLOUDS = (
    "az+https://acme.blob.core.windows.net/lake/a/",
    "az+https://acme.blob.core.chinacloudapi.cn/lake/a/",
    "az+https://acme.blob.core.usgovcloudapi.net/lake/a/",
    "az+https://acme.z07.blob.storage.azure.net/lake/a/",
)
OTHERS = (
    "az+https://evil.example/acme/lake/a/",
    "az+https://acme.blob.evil.example/lake/a/",
    "az+https://acme.blob.core.windows.net.evil.example/lake/a/",
    "az+http://evil.example/acme/lake/a/",
    "az+http://127.0.0.1:10000/acme/lake/a/",
)


@pytest.fixture(autouse=True)
def _no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in os.environ if each.startswith("AZURE_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def script() -> Iterator[ScriptedServer]:
    with serving_script() as found:
        yield found


@pytest.fixture
def bucket(script: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """Return a client whose requests are signed by a key."""
    monkeypatch.setenv(NAME, "acme")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    return Bucket(at(script))


def at(script: ScriptedServer) -> str:
    return f"az+http://127.0.0.1:{script.port}/acme/lake/p/"


def used(url: str, env: dict[str, str], *, is_named: bool = False) -> object:
    """Return the kind of credentials that a place gets."""
    access = azure_access(StorePlace.of(url), env, is_named=is_named)
    if access.options["skip_signature"]:
        return None
    return access.options["credential_type"]


# who gets credentials


@pytest.mark.parametrize("kind", TRANSFERABLE)
@pytest.mark.holds("project-azure")
def test_what_another_could_use_goes_to_the_account_of_the_environment_at_azure(kind: str) -> None:
    env = TRANSFERABLE[kind]
    wanted = {
        "sas": "sas_token",
        "sas key": "sas_token",
        "token": "bearer_token",
        "client": "client_secret",
        "machine": "managed_identity",
        "az": "azure_cli",
    }[kind]
    for url in CLOUDS:
        assert used(url, {**env, NAME: "acme"}) == wanted
        assert used(url, env, is_named=True) == wanted
        for other in ({}, {NAME: "acme2"}, {NAME: ""}):
            with pytest.raises(UntrustedStoreError, match="may not be sent") as caught:
                used(url, {**env, **other})
            assert "AZURE_STORAGE_ACCOUNT_NAME=acme" in caught.value.fix
    for url in OTHERS:
        with pytest.raises(UntrustedStoreError):
            used(url, {**env, NAME: "acme"})
        with pytest.raises(UntrustedStoreError):
            used(url, env)
        if url.startswith("az+http://evil"):
            with pytest.raises(UntrustedStoreError, match="may not be sent") as caught:
                used(url, {**env, NAME: "acme"}, is_named=True)
            assert "plain http" in caught.value.why
        else:
            assert used(url, env, is_named=True) == wanted


@pytest.mark.holds("project-azure")
def test_a_key_signs_requests_for_the_account_of_the_environment() -> None:
    env = {"AZURE_STORAGE_ACCOUNT_KEY": KEY}
    for url in (*CLOUDS, *OTHERS):
        is_far = url.startswith("az+http://evil")
        if is_far:
            with pytest.raises(UntrustedStoreError):
                used(url, {**env, NAME: "acme"})
        else:
            assert used(url, {**env, NAME: "acme"}) == "access_key"
        for other in ({}, {NAME: "acme2"}):
            with pytest.raises(UntrustedStoreError):
                used(url, {**env, **other})


@pytest.mark.holds("project-azure")
def test_where_only_a_key_may_be_used_another_credential_beside_it_is_not() -> None:
    env = {NAME: "acme", "AZURE_STORAGE_ACCOUNT_KEY": KEY}
    for kind in TRANSFERABLE.values():
        assert used("az+https://evil.example/acme/lake/", {**env, **kind}) == "access_key"


@pytest.mark.parametrize("url", [*CLOUDS, *OTHERS])
def test_without_signature_anything_is_read_as_anybody_would(url: str) -> None:
    for env in TRANSFERABLE.values():
        assert used(url, {**env, "AZURE_SKIP_SIGNATURE": "true"}) is None


@pytest.mark.parametrize("kind", TRANSFERABLE)
@pytest.mark.holds("project-azure")
def test_a_server_that_a_project_names_sees_no_request_with_a_credential(
    kind: str, script: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NAME, "acme")
    monkeypatch.setenv("AZURE_MSI_ENDPOINT", f"http://127.0.0.1:{script.port}/msi")
    for name, value in TRANSFERABLE[kind].items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UntrustedStoreError):
        Bucket(at(script)).get("x", 10)
    assert script.seen == []
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    assert Bucket(at(script)).get("x", 10) is None
    (request,) = script.seen
    assert request.headers["authorization"].startswith("SharedKey acme:")
    for secret in (SECRET, KEY, SIGNATURE[:20], "sig="):
        assert secret not in request.text


def test_a_store_that_the_policy_names_gets_the_signature(
    script: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", f"?{SAS}")
    assert Bucket(at(script), is_named=True).get("x", 10) is None
    (request,) = script.seen
    assert f"sig={QUOTED}" in request.path
    assert "authorization" not in request.headers


@pytest.mark.holds("project-azure")
def test_a_key_that_encrypts_is_sent_to_no_server(
    script: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_ENCRYPTION_KEY", base64.b64encode(b"k" * 32).decode())
    for more in ({NAME: "acme", "AZURE_STORAGE_ACCOUNT_KEY": KEY}, {"AZURE_SKIP_SIGNATURE": "1"}):
        for name, value in more.items():
            monkeypatch.setenv(name, value)
        for is_named in (False, True):
            with pytest.raises(StoreCredentialsError, match="AZURE_ENCRYPTION_KEY cannot be used"):
                Bucket(at(script), is_named=is_named)
    assert script.seen == []


@pytest.mark.parametrize(
    "redirect",
    [
        {"AZURE_STORAGE_USE_EMULATOR": "true", "AZURITE_BLOB_STORAGE_URL": "http://127.0.0.1:{}"},
        {"AZURE_STORAGE_USE_EMULATOR": "perhaps"},
        {"AZURE_STORAGE_ENDPOINT": "http://127.0.0.1:{}/acme"},
        {"AZURE_ENDPOINT": "http://127.0.0.1:{}/acme"},
        {"AZURE_CONTAINER_NAME": "other"},
        {"AZURE_USE_FABRIC_ENDPOINT": "true"},
        {
            "AZURE_FABRIC_TOKEN_SERVICE_URL": "http://127.0.0.1:{}/token",
            "AZURE_FABRIC_WORKLOAD_HOST": "http://127.0.0.1:{}",
            "AZURE_FABRIC_SESSION_TOKEN": "session",
            "AZURE_FABRIC_CLUSTER_IDENTIFIER": "cluster",
        },
        {"AZURE_CREDENTIAL_TYPE": "managed_identity", "AZURE_MSI_ENDPOINT": "http://127.0.0.1:{}"},
        {"AZURE_STORAGE_TOKEN": SECRET},
    ],
    ids=lambda each: next(iter(each)),
)
@pytest.mark.holds("project-azure")
def test_no_variable_leads_requests_elsewhere(
    redirect: dict[str, str], script: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NAME, "acme")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    with serving_script() as elsewhere:
        for name, value in redirect.items():
            monkeypatch.setenv(name, value.format(elsewhere.port))
        assert Bucket(at(script)).get("x", 10) is None
        assert elsewhere.seen == []
    (request,) = script.seen
    assert request.path == "/acme/lake/p/x"
    assert request.headers["authorization"].startswith("SharedKey acme:")


def test_tokens_are_asked_for_where_the_cloud_of_a_place_gives_them() -> None:
    wanted = [
        "microsoftonline.com",
        "chinacloudapi.cn",
        "microsoftonline.us",
        "microsoftonline.com",
    ]
    for url, authority in zip(CLOUDS, wanted, strict=True):
        env = {NAME: "acme", "AZURE_AUTHORITY_HOST": "https://evil.example"}
        access = azure_access(StorePlace.of(url), env, is_named=False)
        assert access.options["authority_host"] == f"https://login.{authority}"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("AZURE_STORAGE_ACCOUNT_KEY", "no base64, but hunter2-of-the-north"),
        ("AZURE_STORAGE_SAS_TOKEN", "hunter2-of-the-north"),
        ("AZURE_STORAGE_SAS_TOKEN", "sv=1&hunter2-of-the-north"),
        ("AZURE_STORAGE_SAS_TOKEN", "sv=1&se=hunter2-of-the-north"),
        ("AZURE_STORAGE_TOKEN", "hunter2-of-the-north\nand another line"),
        ("AZURE_SKIP_SIGNATURE", "perhaps"),
        ("AZURE_ENCRYPTION_KEY", "hunter2-of-the-north"),
        ("AZURE_DISABLE_TAGGING", "perhaps"),
    ],
)
def test_malformed_credentials_are_an_error_that_names_them_without_their_value(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NAME, "acme")
    monkeypatch.setenv(variable, value)
    with pytest.raises(StoreCredentialsError) as caught:
        Bucket(CLOUDS[0])
    error = caught.value
    assert "hunter2" not in f"{error.what}{error.why}{error.fix}"
    if variable != "AZURE_DISABLE_TAGGING":
        assert variable in error.what


def test_no_text_has_a_signature_however_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", f"?{SAS}")
    Bucket(CLOUDS[0], is_named=True)
    for form in (SIGNATURE, QUOTED, QUOTED.replace("%2F", "%2f").replace("%2B", "%2b")):
        assert SIGNATURE[3:20] not in hidden(f"refused: {form} is wrong")


# what answers mean


def test_what_is_replaced_and_was_taken_away_is_a_condition_that_does_not_hold(
    bucket: Bucket, script: ScriptedServer
) -> None:
    script.answers = [Answer(404, azure_error("BlobNotFound"))]
    with pytest.raises(FileExistsError):
        bucket.put("k", b"x", {"e_tag": '"0x1"'})


def test_a_swap_of_what_another_takes_away_meanwhile_is_tried_again(
    bucket: Bucket, script: ScriptedServer
) -> None:
    at_first = {"ETag": '"0x1"', "Last-Modified": "Sun, 29 Nov 2026 21:40:00 GMT"}
    script.answers = [
        Answer(200, b"old", at_first),
        Answer(404, azure_error("BlobNotFound")),
        Answer(404, azure_error("BlobNotFound")),
        Answer(201, b"", {"ETag": '"0x2"'}),
    ]
    assert bucket.swap("k", lambda _: True, b"new") == b"new"
    assert [each.method for each in script.seen] == ["GET", "PUT", "GET", "PUT"]
    assert script.seen[1].headers["if-match"] == '"0x1"'
    assert script.seen[3].headers["if-none-match"] == "*"


@pytest.mark.parametrize("code", ["ContainerNotFound", "ResourceNotFound"])
def test_a_container_that_is_missing_is_said_to_be_so(
    code: str, bucket: Bucket, script: ScriptedServer, tmp_path: Path
) -> None:
    script.last = Answer(404, azure_error(code))
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate((64 << 20) + 1)
    asks: list[Callable[[], object]] = [
        lambda: bucket.get("k", 10),
        lambda: bucket.put("k", b"x"),
        lambda: bucket.put("k", b"x", "create"),
        lambda: bucket.put_file("k", large),
        lambda: list(bucket.listed("")),
        lambda: bucket.below(""),
    ]
    for ask in asks:
        with pytest.raises(MissingBucketError, match="/acme/lake does not exist"):
            ask()


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_is_one_whatever_is_asked(
    status: int, bucket: Bucket, script: ScriptedServer
) -> None:
    script.last = Answer(status, azure_error("AuthorizationPermissionMismatch"))
    asks: list[Callable[[], object]] = [
        lambda: bucket.get("k", 10),
        lambda: bucket.put("k", b"x"),
        lambda: list(bucket.listed("")),
        lambda: bucket.below(""),
        lambda: bucket.delete("k"),
    ]
    for ask in asks:
        with pytest.raises(RefusedByRepositoryError, match="refuses the request"):
            ask()


def test_a_deletion_that_is_refused_within_a_batch_is_refused(
    bucket: Bucket, script: ScriptedServer
) -> None:
    part = (
        "--b\r\nContent-Type: application/http\r\nContent-ID: 0\r\n\r\nHTTP/1.1 403 Forbidden\r\n"
        "x-ms-error-code: AuthorizationPermissionMismatch\r\nContent-Length: 0\r\n\r\n\r\n--b--\r\n"
    )
    script.last = Answer(202, part.encode(), {"Content-Type": "multipart/mixed; boundary=b"})
    with pytest.raises(RefusedByRepositoryError, match="refuses the request"):
        bucket.delete("k")


def test_etags_of_lists_are_those_of_objects(bucket: Bucket, script: ScriptedServer) -> None:
    script.answers = [
        Answer(
            200,
            b'<?xml version="1.0"?><EnumerationResults><Blobs><Blob><Name>p/a</Name><Properties>'
            b"<Last-Modified>Sun, 29 Nov 2026 21:40:00 GMT</Last-Modified><Etag>0x8D</Etag>"
            b"<Content-Length>3</Content-Length><Content-Type>x</Content-Type></Properties></Blob>"
            b"</Blobs><NextMarker /></EnumerationResults>",
            {"Content-Type": "application/xml"},
        ),
        Answer(304),
    ]
    (found,) = bucket.listed("")
    assert found.tag == '"0x8D"'
    assert bucket.look("a", 10, found.tag) is UNCHANGED
    assert script.seen[1].headers["if-none-match"] == '"0x8D"'


def test_nothing_is_copied_by_the_store_as_a_copy_may_be_pending(
    bucket: Bucket, script: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    assert bucket.copy(f"{bucket.place}a", "b") is False
    assert script.seen == []


@pytest.mark.parametrize("there", [True, False])
def test_an_upload_that_another_ended_first_is_looked_at_and_else_sent_again(
    there: bool,
    bucket: Bucket,
    script: ScriptedServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_AT_ONCE", 1 << 20)
    size = (16 << 20) + 5
    large = tmp_path / "large"
    large.write_bytes(os.urandom(size))
    put, moved = Answer(201, b"", {"ETag": '"0x2"'}), list[int]()
    facts = {"ETag": '"0x1"', "Last-Modified": "Sun, 29 Nov 2026 21:40:00 GMT"}
    facts["Content-Length"] = str(size if there else 7)
    overtaken = Answer(400, azure_error("InvalidBlockList"))
    script.answers = [put, put, put, overtaken, Answer(200, b"", facts), put, put, put, put]
    assert bucket.put_file("k", large, moved.append) is not there
    lists = [each for each in script.seen if "comp=blocklist" in each.path]
    assert len(lists) == (1 if there else 2)
    assert sum(moved) == size
    script.seen.clear()
    script.answers = [put, put, put, overtaken, Answer(200, b"", facts)]
    with large.open("rb") as file:
        pieces = iter(lambda: file.read(1 << 20), b"")
        if there:
            bucket.put_pieces("k", size, pieces)
            return
        with pytest.raises(UnreachableRepositoryError, match="could not be stored"):
            bucket.put_pieces("k", size, pieces)


def test_a_deletion_by_a_signature_is_a_request_of_its_own(
    script: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PAUSE", 0.01)
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", SAS)
    bucket = Bucket(at(script), is_named=True)
    script.answers = [Answer(503, azure_error("ServerBusy")), Answer(202)]
    bucket.delete("a b/k")
    assert [each.method for each in script.seen] == ["DELETE", "DELETE"]
    assert script.seen[1].path.startswith("/acme/lake/p/a%20b/k?sv=2021-08-06&")
    bucket.delete("absent")
    for status, error in ((403, RefusedByRepositoryError), (409, UnreachableRepositoryError)):
        script.answers = [Answer(status, azure_error("AuthorizationFailure", f"not {SIGNATURE}"))]
        with pytest.raises(error) as caught:
            bucket.delete("k")
        assert "bmF0dXJl" not in hidden(str(caught.value))
    script.last = Answer(503)
    with pytest.raises(UnreachableRepositoryError):
        bucket.delete("k")


# a real server


@pytest.fixture
def azure(azure_store: ObjectServer) -> AzureServer:
    assert isinstance(azure_store, AzureServer)
    return azure_store


def test_all_that_a_workspace_needs_is_done_by_a_signature(
    azure: AzureServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", azure.sas())
    bucket = Bucket(azure.url("by-signature"), is_named=True)
    bucket.put("a/k", b"x", "create")
    assert bucket.get("a/k", 10) == b"x"
    assert bucket.swap("a/k", lambda _: True, b"yy") == b"yy"
    assert [each.key for each in bucket.listed("")] == ["a/k"]
    assert bucket.below("") == ["a"]
    bucket.delete("a/k")
    assert bucket.get("a/k", 10) is None
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", azure.sas("rl"))
    bucket = Bucket(azure.url("by-signature"), is_named=True)
    assert list(bucket.listed("")) == []
    asks: list[Callable[[], object]] = [lambda: bucket.put("k", b"x"), lambda: bucket.delete("k")]
    for ask in asks:
        with pytest.raises(RefusedByRepositoryError):
            ask()


def test_a_container_that_does_not_exist_is_missing(
    azure: AzureServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in azure.credentials.items():
        monkeypatch.setenv(name, value)
    bucket = Bucket(azure.url("x").replace("/odf/x", "/missing/x"))
    for ask in (
        lambda: bucket.put("k", b"x"),
        lambda: bucket.get("k", 10),
        lambda: list(bucket.listed("")),
    ):
        with pytest.raises(MissingBucketError):
            ask()


def test_a_name_that_a_list_gave_is_known_to_be_unchanged(
    azure: AzureServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in azure.credentials.items():
        monkeypatch.setenv(name, value)
    bucket = Bucket(azure.url("tags"))
    tag = bucket.put("k", b"x")
    (found,) = bucket.listed("")
    assert found.tag == tag
    assert bucket.look("k", 10, found.tag) is UNCHANGED


@pytest.mark.parametrize(
    "store", ["running_store", "simulated_store", "azure_store", "google_store"], indirect=True
)
def test_an_object_is_read_from_its_end_on(store: ObjectServer) -> None:
    bucket = Bucket(store.url("ends"))
    bucket.put("k", b"abc")
    for start in (0, 2, 3):
        with bucket.open("k", start) as pieces:
            assert b"".join(pieces) == b"abc"[start:]
    with pytest.raises(BrokenSourceError, match="fewer than 4 bytes"), bucket.open("k", 4):
        raise AssertionError


def test_two_who_send_the_same_in_parts_both_have_it(
    azure: AzureServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "_AT_ONCE", 1 << 20)
    for name, value in azure.credentials.items():
        monkeypatch.setenv(name, value)
    large = tmp_path / "large"
    large.write_bytes(os.urandom((24 << 20) + 5))
    url = azure.url("parts")
    for at in range(4):
        key = f"k{at}"
        with ThreadPoolExecutor(3) as pool:
            sent = [pool.submit(Bucket(url).put_file, key, large) for _ in range(3)]
        assert True in [each.result() for each in sent]
        assert Bucket(url).get(key, 32 << 20) == large.read_bytes()
