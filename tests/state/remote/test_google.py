"""Google Cloud Storage: who gets tokens, swaps by generations, and what its answers mean."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from odfbuild.odf.identity import sha3_256
from odfbuild.state.remote.client import UNCHANGED
from odfbuild.state.remote.errors import RefusedByRepositoryError, UnreachableRepositoryError
from odfbuild.state.remote.store import bucket as module
from odfbuild.state.remote.store.abilities import Abilities, probe
from odfbuild.state.remote.store.bucket import Bucket, MissingBucketError
from odfbuild.state.remote.store.credentials import StoreCredentialsError
from odfbuild.state.remote.store.google import SERVER, google_access
from odfbuild.state.remote.store.place import StorePlace
from odfbuild.texts.known_secrets import hidden
from tests.state.remote.scripted import Answer, ScriptedServer, azure_error, serving_script
from tests.support.servers.object_proxy import proxying
from tests.support.servers.object_store import ObjectServer

TOKEN = "ya29.hunter2-of-the-north"
KEY = json.dumps({
    "type": "service_account",
    "client_email": "north@example.iam.gserviceaccount.com",
    "private_key_id": "1",
    "private_key": "-----BEGIN PRIVATE KEY-----\nhunter2OfTheNorth\n-----END PRIVATE KEY-----\n",
})  # fmt: skip
OTHERS = (
    "gs+https://evil.example/lake/a/",
    "gs+https://storage.googleapis.com.evil.example/lake/a/",
    "gs+http://127.0.0.1:4443/lake/a/",
    "gs+http://evil.example/lake/a/",
)
GIVEN: dict[str, dict[str, str]] = {
    "token": {"GOOGLE_BEARER_TOKEN": f"{TOKEN}\n"},
    "key": {"GOOGLE_SERVICE_ACCOUNT_KEY": KEY},
    "file": {"GOOGLE_SERVICE_ACCOUNT": "/home/north/key.json"},
    "default": {"GOOGLE_APPLICATION_CREDENTIALS": "/home/north/adc.json"},
}
FACTS = {"ETag": '"a"', "x-goog-generation": "7"}
FACTS |= {"Last-Modified": "Sun, 29 Nov 2026 21:40:00 GMT"}
LATER = {**FACTS, "ETag": '"b"', "x-goog-generation": "8"}


@pytest.fixture(autouse=True)
def _no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in os.environ if each.startswith(("GOOGLE_", "GCE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("SERVICE_ACCOUNT", raising=False)


@pytest.fixture
def script() -> Iterator[ScriptedServer]:
    with serving_script() as found:
        yield found


@pytest.fixture
def bucket(script: ScriptedServer) -> Bucket:
    return Bucket(at(script))


@pytest.fixture
def google(google_store: ObjectServer) -> ObjectServer:
    return google_store


def at(script: ScriptedServer) -> str:
    return f"gs+http://127.0.0.1:{script.port}/lake/p/"


def options(url: str, env: Mapping[str, str], *, is_named: bool = False) -> Mapping[str, Any]:
    return google_access(StorePlace.of(url), env, is_named=is_named).options


def requests(bucket: Bucket) -> list[Callable[[], object]]:
    """Return one request of each kind."""
    return [
        lambda: bucket.get("k", 10),
        lambda: bucket.put("k", b"x"),
        lambda: bucket.put("k", b"x", "create"),
        lambda: bucket.put("k", b"x", {"e_tag": '"a"'}),
        lambda: list(bucket.listed("")),
        lambda: bucket.below(""),
        lambda: bucket.delete("k"),
    ]


def is_signed(url: str, env: Mapping[str, str], *, is_named: bool = False) -> bool:
    """Tell whether requests have the credentials of an environment."""
    found = options(url, env, is_named=is_named)
    assert ("credential_provider" in found) == found["skip_signature"]
    return not found["skip_signature"]


# who gets tokens


@pytest.mark.parametrize("kind", GIVEN)
@pytest.mark.holds("project-google")
def test_tokens_go_to_google_and_to_servers_that_the_policy_names(kind: str) -> None:
    env = GIVEN[kind]
    assert is_signed("gs://lake/a/", env)
    assert options("gs://lake/a/", env)["base_url"] == SERVER == "https://storage.googleapis.com"
    for url in OTHERS:
        assert not is_signed(url, env)
        assert is_signed(url, env, is_named=True) is not url.startswith("gs+http://evil")
        assert url.startswith(f"gs+{options(url, env)['base_url']}/lake/")


@pytest.mark.holds("project-google")
def test_another_server_gets_no_token_of_a_login_or_of_the_machine() -> None:
    assert is_signed("gs://lake/a/", {})
    for url in OTHERS:
        assert not is_signed(url, {}, is_named=True)


def test_without_signature_anything_is_read_as_anybody_would() -> None:
    for env in GIVEN.values():
        for url in ("gs://lake/a/", *OTHERS):
            assert not is_signed(url, {**env, "GOOGLE_SKIP_SIGNATURE": "true"}, is_named=True)


@pytest.mark.holds("project-google")
def test_a_server_that_a_project_names_sees_no_request_with_a_token(
    script: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does the library ask a machine for one, be it to write."""
    with serving_script() as machine:
        script.last = Answer(200, b"", FACTS)
        monkeypatch.setenv("GCE_METADATA_HOST", f"127.0.0.1:{machine.port}")
        monkeypatch.setenv("GCE_METADATA_IP", f"127.0.0.1:{machine.port}")
        for env in ({}, GIVEN["token"], {"GOOGLE_SKIP_SIGNATURE": "true", **GIVEN["token"]}):
            for name, value in env.items():
                monkeypatch.setenv(name, value)
            bucket = Bucket(at(script))
            for ask in requests(bucket):
                with suppress(UnreachableRepositoryError):  # no list comes
                    ask()
            bucket.copy(f"{bucket.place}k", "l")
        assert machine.seen == []
    assert len(script.seen) == 3 * 9
    assert {each.headers.get("authorization", "Bearer").strip() for each in script.seen} == {
        "Bearer"
    }
    assert not any("hunter2" in each.text for each in script.seen)


def test_a_server_that_the_policy_names_gets_the_token(
    script: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", f" {TOKEN}\n")
    assert Bucket(at(script), is_named=True).get("x", 10) is None
    (request,) = script.seen
    assert request.headers["authorization"] == f"Bearer {TOKEN}"


@pytest.mark.parametrize(
    "redirect",
    [
        {"GOOGLE_BASE_URL": "http://127.0.0.1:PORT"},
        {"GOOGLE_BUCKET": "other"},
        {"GOOGLE_BUCKET_NAME": "other"},
        {"GOOGLE_SKIP_SIGNATURE": "off"},
        {
            "GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps({
                "gcs_base_url": "http://127.0.0.1:PORT", "disable_oauth": True,
                "client_email": "", "private_key": "", "private_key_id": "",
            })
        },
    ],
    ids=lambda each: next(iter(each)),
)  # fmt: skip
@pytest.mark.holds("project-google")
def test_no_variable_leads_requests_elsewhere(
    redirect: dict[str, str], script: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", TOKEN)
    with serving_script() as elsewhere:
        for name, value in redirect.items():
            monkeypatch.setenv(name, value.replace("PORT", str(elsewhere.port)))
        assert Bucket(at(script), is_named=True).get("x", 10) is None
        assert elsewhere.seen == []
    (request,) = script.seen
    assert request.path == "/lake/p%2Fx"
    assert request.headers["authorization"] == f"Bearer {TOKEN}"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("GOOGLE_BEARER_TOKEN", "hunter2\nand another line"),
        ("GOOGLE_BEARER_TOKEN", "hunter2 of"),
        ("GOOGLE_BEARER_TOKEN", " "),
        ("GOOGLE_SERVICE_ACCOUNT_KEY", "hunter2"),
        ("GOOGLE_SERVICE_ACCOUNT_KEY", '"hunter2"'),
        ("GOOGLE_SERVICE_ACCOUNT_KEY", '{"private_key": "hunter2"}'),
        ("GOOGLE_SERVICE_ACCOUNT_KEY", KEY),  # no key of RSA
        ("GOOGLE_SERVICE_ACCOUNT", "/nowhere/hunter"),
        ("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere/hunter"),
        ("GOOGLE_SKIP_SIGNATURE", "perhaps"),
    ],
)
def test_malformed_credentials_are_an_error_without_their_value(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(StoreCredentialsError) as caught:
        Bucket("gs://lake/a/")
    error = caught.value
    assert "hunter2" not in f"{error.what}{error.why}{error.fix}"
    assert "GOOGLE_" in f"{error.what}{error.fix}"


def test_a_login_of_another_kind_is_said_not_to_be_usable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "federated.json"
    file.write_text('{"type": "external_account", "audience": "x"}')
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    with pytest.raises(StoreCredentialsError, match="settings that cannot be used") as caught:
        Bucket("gs://lake/a/")
    assert "`external_account`" in caught.value.why
    assert "GOOGLE_BEARER_TOKEN" in caught.value.fix


def test_no_text_has_a_token_or_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for env in (GIVEN["token"], GIVEN["key"]):
        options("gs://lake/a/", env)
    said = hidden(f"refused: {TOKEN} and {json.loads(KEY)['private_key']} are wrong")
    assert "hunter2" not in said
    assert "refused" in said


def test_a_machine_without_credentials_is_said_to_have_none(
    script: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GCE_METADATA_HOST", f"127.0.0.1:{script.port}")
    monkeypatch.setenv("GCE_METADATA_IP", f"127.0.0.1:{script.port}")
    script.last = Answer(404)
    with pytest.raises(RefusedByRepositoryError, match="no credentials were found") as caught:
        Bucket("gs://lake/a/").get("k", 10)
    assert "gcloud auth application-default login" in caught.value.fix
    assert all(each.path.startswith("/computeMetadata/") for each in script.seen)


# swaps by generations


def test_a_swap_by_an_etag_is_one_of_the_generation_that_has_it(
    bucket: Bucket, script: ScriptedServer
) -> None:
    script.answers = [Answer(200, b"", FACTS), Answer(200, b"", LATER)]
    assert bucket.put("k", b"x", {"e_tag": '"a"'}) == '"b"'
    assert [each.method for each in script.seen] == ["HEAD", "PUT"]
    assert script.seen[1].headers["x-goog-if-generation-match"] == "7"
    assert script.seen[1].body == b"x"


@pytest.mark.parametrize(
    "answers",
    [
        [Answer(200, b"", LATER)],
        [Answer(404)],
        [Answer(200, b"", {k: v for k, v in FACTS.items() if k != "x-goog-generation"})],
        [Answer(200, b"", FACTS), Answer(412, azure_error("PreconditionFailed"))],
        [Answer(200, b"", FACTS), Answer(404, azure_error("NoSuchKey"))],
    ],
    ids=["changed", "taken away", "no generation", "changed meanwhile", "taken away meanwhile"],
)
def test_a_swap_of_what_changed_is_a_condition_that_does_not_hold(
    answers: list[Answer], bucket: Bucket, script: ScriptedServer
) -> None:
    script.answers = [*answers]
    with pytest.raises(FileExistsError):
        bucket.put("k", b"x", {"e_tag": '"a"'})
    assert [each.method for each in script.seen] == ["HEAD", "PUT"][: len(answers)]


def test_a_swap_of_what_was_read_just_now_asks_for_no_generation(
    bucket: Bucket, script: ScriptedServer
) -> None:
    script.answers = [
        Answer(200, b"old", FACTS),
        Answer(412, azure_error("PreconditionFailed")),
        Answer(200, b"other", LATER),
        Answer(200, b"", {**LATER, "x-goog-generation": "9"}),
    ]
    assert bucket.swap("k", lambda _: True, b"new") == b"new"
    assert [each.method for each in script.seen] == ["GET", "PUT", "GET", "PUT"]
    wanted = [each.headers.get("x-goog-if-generation-match") for each in script.seen]
    assert wanted == [None, "7", None, "8"]


def test_what_is_created_must_have_no_generation(bucket: Bucket, script: ScriptedServer) -> None:
    script.answers = [Answer(404, azure_error("NoSuchKey")), Answer(200, b"", FACTS)]
    assert bucket.swap("k", lambda _: True, b"new") == b"new"
    assert script.seen[1].headers["x-goog-if-generation-match"] == "0"


def test_what_changes_is_served_from_no_cache(bucket: Bucket, script: ScriptedServer) -> None:
    """Google keeps objects of everyone in caches for an hour otherwise."""
    script.last = Answer(200, b"", FACTS)
    bucket.put("k", b"x")
    bucket.put("k", b"x", "create")
    bucket.put("k", b"x", {"e_tag": '"a"'})
    for each in script.seen:
        assert each.method == "HEAD" or each.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("lies", ["overwrites", "no generations"])
def test_a_store_that_does_not_swap_by_generations_is_found(
    lies: str, google: ObjectServer
) -> None:
    with ExitStack() as stack:
        proxy = stack.enter_context(proxying(google.port))
        bucket = Bucket(google.url("lies", proxy.port))
        if lies == "overwrites":
            proxy.lies = google.store()
            assert not probe(bucket).creates_only
        else:
            proxy.hides = ("x-goog-generation",)
            assert probe(bucket) == Abilities(creates_only=True, swaps=False)
        assert google.files("lies") == {}


# what answers mean


@pytest.mark.parametrize("status", [429, 503])
def test_a_store_that_wants_fewer_requests_is_asked_again(
    status: int, bucket: Bucket, script: ScriptedServer
) -> None:
    """An object may be written about once a second."""
    script.answers = [Answer(status, azure_error("SlowDown")), Answer(200, b"", FACTS)]
    assert bucket.put("k", b"x", "create") == '"a"'
    assert [each.method for each in script.seen] == ["PUT", "PUT"]


def test_a_bucket_that_is_missing_is_said_to_be_so(
    bucket: Bucket, script: ScriptedServer, tmp_path: Path
) -> None:
    script.last = Answer(404, azure_error("NoSuchBucket"))
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate((64 << 20) + 1)
    asks = [*requests(bucket)[:3], *requests(bucket)[4:6]]
    asks.append(lambda: bucket.put_file("k", large))
    for ask in asks:
        with pytest.raises(MissingBucketError, match=r"the bucket gs.*/lake does not exist"):
            ask()


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_is_one_whatever_is_asked_and_says_why_no_token_was_sent(
    status: int, script: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    script.last = Answer(status, azure_error("AccessDenied"))
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", TOKEN)
    for is_named, why in ((False, "unless the policy names it"), (True, "may not do this")):
        bucket = Bucket(at(script), is_named=is_named)
        for ask in requests(bucket)[:3] + requests(bucket)[4:]:
            with pytest.raises(RefusedByRepositoryError, match="AccessDenied") as caught:
                ask()
            assert why in caught.value.why


def test_what_a_store_says_is_shown_without_how_often_it_was_asked(
    bucket: Bucket, script: ScriptedServer
) -> None:
    script.last = Answer(400, b"no XML")
    for ask in (lambda: bucket.get("k", 10), lambda: list(bucket.listed(""))):
        with pytest.raises(UnreachableRepositoryError) as caught:
            ask()
        said = "cannot be used: Server returned non-2xx status code: 400 Bad Request: no XML"
        assert caught.value.what == f"{bucket.place} {said}"


# a server


def test_a_name_that_a_list_gave_is_known_to_be_unchanged(google: ObjectServer) -> None:
    bucket = Bucket(google.url("tags"))
    tag = bucket.put("k", b"x", "create")
    (found,) = bucket.listed("")
    assert found.tag == tag
    assert bucket.look("k", 10, found.tag) is UNCHANGED
    assert bucket.put("k", b"y", {"e_tag": tag}) != tag
    with pytest.raises(FileExistsError):
        bucket.put("k", b"z", {"e_tag": tag})
    assert bucket.get("k", 10) == b"y"


def test_the_store_copies_within_a_bucket_and_not_between_two(google: ObjectServer) -> None:
    bucket, other = Bucket(google.url("copies/a")), google.url("copies/b c")
    Bucket(other).put("k", b"x")
    assert bucket.copy(f"{other}k", "l")
    assert bucket.get("l", 10) == b"x"
    assert not bucket.copy(f"{other}missing", "m")
    assert not bucket.copy("gs://lake/b/k", "m")
    assert bucket.get("m", 10) is None


def test_a_large_file_is_sent_in_parts_once(
    google: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_AT_ONCE", 1 << 20)
    bucket, moved = Bucket(google.url("parts")), list[int]()
    large = tmp_path / "large"
    large.write_bytes(os.urandom((16 << 20) + 5))
    assert bucket.put_file("k", large, moved.append)
    assert sum(moved) == large.stat().st_size
    assert bucket.get("k", 32 << 20) == large.read_bytes()
    (found,) = bucket.listed("")
    assert bucket.look("k", 32 << 20, found.tag) is UNCHANGED


def test_all_pages_of_a_list_are_read(google: ObjectServer) -> None:
    bucket = Bucket(google.url("pages"))
    for number in range(1_100):
        bucket.put(f"{number % 3}/{number:04}", b"x")
    assert len([*bucket.listed("")]) == 1_100
    assert len([*bucket.listed("1/")]) == 367
    assert bucket.below("") == ["0", "1", "2"]


RACER = """
import sys
from odfbuild.odf.identity import Multihash
from odfbuild.state.remote.heads import swap_head
from odfbuild.state.remote.store.bucket import Bucket

bucket = Bucket(sys.argv[1])
print("ready", flush=True)
for line in sys.stdin:
    before, new = line.split()
    expected = None if before == "-" else Multihash.parse(before)
    print(swap_head(bucket, "refs/head", expected, Multihash.parse(new)), flush=True)
"""


def test_of_two_processes_that_set_a_head_one_wins_each_time(google: ObjectServer) -> None:
    url = google.url("head-races")
    command = [sys.executable, "-P", "-c", RACER, url]
    with ExitStack() as stack:
        racers = [
            stack.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            for _ in range(2)
        ]
        assert [_line(each) for each in racers] == ["ready", "ready"]
        before = "-"
        for number in range(30):
            wanted = [str(sha3_256(f"{number} of {each}".encode())) for each in range(2)]
            for racer, new in zip(racers, wanted, strict=True):
                assert racer.stdin is not None
                racer.stdin.write(f"{before} {new}\n")
                racer.stdin.flush()
            said = [_line(each) for each in racers]
            assert said[0] == said[1]  # the head that is there, whoever set it
            assert said[0] in wanted
            before = said[0]
        for each in racers:
            assert each.stdin is not None
            each.stdin.close()
    assert google.files("head-races") == {"refs/head": before.encode()}


def _line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()
