"""Credentials: in definitions, and as servers send them back."""

import base64
import html
import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from odfbuild.cli.render import outside_use as outside
from odfbuild.cli.render.dataset import block_text
from odfbuild.errors import OdfBuildError, bounded
from odfbuild.executors.ingest import prepare as pipe
from odfbuild.executors.ingest.fetch import http
from odfbuild.executors.ingest.fetch.download import TransientError
from odfbuild.executors.ingest.fetch.request import Request, printable, redact
from odfbuild.executors.ingest.read import problems
from odfbuild.executors.process.program import last_words
from odfbuild.odf.events import MetadataBlock
from odfbuild.odf.manifest import from_manifest
from odfbuild.odf.wire.blocks import block_hash, encode_block
from odfbuild.project.yaml import read_documents
from odfbuild.texts.redaction import excerpt, header_has_secret, redacted, without_secrets
from tests.support.data.chains import NOON
from tests.support.engines import FakeEngine
from tests.support.process.inside import Inside, lay_out
from tests.support.process.within import Within
from tests.support.projects.texts import root
from tests.support.servers.http import Page, serving

SECRET = "hunter2/is+not=for&you"
PLAIN = "hunter2isnotforyou"
SOURCE = """\
kind: DatasetSnapshot
version: 1
content:
  name: a
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch: {fetch}
      read: {{kind: Csv, header: true, schema: [day DATE, price DOUBLE]}}
      merge: {{kind: Append}}
    - {{kind: SetVocab, eventTimeColumn: day}}
"""
URLS = (
    f"https://someone:{PLAIN}@h.example/x",
    f"https://b.example/x?X-Amz-Algorithm=A&X-Amz-Signature={PLAIN}&X-Amz-Expires=9",
    f"https://b.example/x?sv=2024&se=2030&sig={PLAIN}",
    f"https://h.example/x?a=1&access_token={PLAIN}",
    f"https://h.example/x?token={PLAIN}#part",
    f"https://h.example/x?apikey={PLAIN}",
    f"https://h.example/x?X-Goog-Signature={PLAIN}",
    f"ftp://someone:{PLAIN}@h.example/x.csv",
    f"https://someone:p/{PLAIN}@h.example/x",
    f"https://h.example/x?%74oken={PLAIN}",
    f"https://h.example/x#token={PLAIN}",
    f"https://h.example/x/ghp_{PLAIN}",
)
HEADERS = ("Authorization", "Proxy-Authorization", "X-Api-Key", "PRIVATE-TOKEN", "Cookie")
FETCHES = [f"{{kind: Url, url: '{url}'}}" for url in URLS] + [
    f"{{kind: Url, url: 'https://h.example/', headers: [{{name: {name}, value: Bearer {PLAIN}}}]}}"
    for name in HEADERS
]
IMAGE = f"x@sha256:{'1' * 64}"
WORDS = (
    f"[--password={PLAIN}]",
    f"[--api-key, {PLAIN}]",
    f"[-u, 'me:{PLAIN}']",
    f"[-H, 'Authorization: Bearer {PLAIN}']",
    f"[-H, 'X-Api-Key: {PLAIN}']",
    f"['https://me:{PLAIN}@h.example/x']",
    f"['curl -H \"authorization: {PLAIN}\" https://h.example']",
)
FETCHES += [f"{{kind: Container, image: '{IMAGE}', args: {words}}}" for words in WORDS]
FETCHES += [
    f"{{kind: Container, image: '{IMAGE}', env: [{{name: {name}, value: {PLAIN}}}]}}"
    for name in ("API_TOKEN", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY", "apikey")
]
Make = Callable[[str], Within]


@pytest.fixture
def make(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Make:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))

    def made(fetch: str) -> Within:
        files = {
            "odfbuild.yaml": "odfbuild: 1\nname: ours\n",
            "datasets/a.yaml": SOURCE.format(fetch=fetch),
        }
        return Within(lay_out(tmp_path / "project", files), capsys, monkeypatch)

    return made


@pytest.mark.holds("project-secrets")
@pytest.mark.parametrize("fetch", FETCHES)
def test_credentials_in_a_source_are_told_of_and_not_shown(make: Make, fetch: str) -> None:
    ours = make(fetch)
    check = ours("check")
    assert check.code == 0
    assert "warning[literal-secret]" in check.out
    assert "datasets/a.yaml:8:" in check.out
    for arguments in (("plan",), ("plan", "-o", "json")):
        plan = ours(*arguments)
        assert plan.code == 1
        assert "literal-secret" in plan.out + plan.err
        assert PLAIN not in plan.out + plan.err
    assert PLAIN not in check.out + check.err


@pytest.mark.holds("project-secrets")
@pytest.mark.parametrize("words", WORDS)
def test_credentials_of_programs_are_told_of_and_not_shown(make: Make, words: str) -> None:
    pipe = f"{{kind: Pipe, command: [jq, {words[1:]}}}"
    ours = make(f"{{kind: FilesGlob, path: a.csv}}\n      prepare: [{pipe}]")
    check = ours("check")
    assert (check.code, "warning[literal-secret]" in check.out) == (0, True), check
    for done in (check, ours("plan"), ours("plan", "-o", "json")):
        assert PLAIN not in done.out + done.err


@pytest.mark.holds("project-secrets")
@pytest.mark.parametrize(
    "words",
    [
        "[--token, '${{ env.T }}']",
        "['--token=${{ env.T }}']",
        "[sh, -c, 'curl -H \"Authorization: Bearer $T\"']",
        "[jq, '.token, .a.password: 1']",
        "[--keyword=x, --token, --verbose, -u, me]",
        "[awk, '-F:', '{ print $1 }']",
    ],
)
def test_words_without_credentials_pass(make: Make, words: str) -> None:
    ours = make(f"{{kind: Container, image: '{IMAGE}', args: {words}}}")
    assert "literal-secret" not in ours.done("check")


@pytest.mark.holds("project-secrets")
def test_a_line_with_a_credential_is_blanked_in_other_findings(make: Make) -> None:
    ours = make(f"{{kind: Url, urll: 'https://h.example/?token={PLAIN}'}}")
    for arguments in (("check",), ("plan", "-o", "json"), ("check", "-o", "json")):
        done = ours(*arguments)
        assert done.code == 1
        assert PLAIN not in done.out + done.err


@pytest.mark.holds("project-secrets")
@pytest.mark.parametrize(
    "url",
    [
        "https://h.example/x?token=${{ env.TOKEN }}",
        "https://${{ env.USER }}:${{ env.PW }}@h.example/x",
        "https://someone@h.example/x?page=1&monkey=2",
        "https://h.example/x?keyword=a&design=b&tokens=3",
    ],
)
def test_what_is_no_credential_passes(make: Make, url: str) -> None:
    ours = make(f"{{kind: Url, url: '{url}'}}")
    assert "literal-secret" not in ours.done("check")
    assert ours("plan").code == 0


KNOWN = (
    *(f"{start}{PLAIN}" for start in ("ghp_", "github_pat_", "glpat-", "xoxb-", "xoxp-", "sk-")),
    "AKIAIOSFODNN7EXAMPLE",
    f"https://hooks.slack.com/services/T0/B0/{PLAIN}",
    f"https:/u:{PLAIN}@h",
)


@pytest.mark.holds("project-secrets")
@pytest.mark.parametrize("text", KNOWN)
def test_well_known_credentials_are_blanked_wherever_they_stand(text: str) -> None:
    said = redacted(f"it said {text} to us")
    assert said.startswith("it said ")
    assert said.endswith(" to us")
    assert PLAIN not in said
    assert "EXAMPLE" not in said


@pytest.mark.holds("project-secrets")
def test_headers_with_credentials_by_name_or_by_value() -> None:
    assert header_has_secret("token", "q")
    for name in ("Ocp-Apim-Subscription-Key", "DD-API-KEY", "Fastly-Key", "DD-APPLICATION-KEY"):
        assert header_has_secret(name, "q")
    assert not header_has_secret("Sec-WebSocket-Keying", "q")
    assert header_has_secret("X-Foo", "Bearer abc")
    assert header_has_secret("X-Foo", f"ghp_{PLAIN}")
    assert not header_has_secret("Accept", "text/csv")
    assert not header_has_secret("token", "${{ env.TOKEN }}")


@pytest.mark.holds("server-echo")
def test_no_end_of_a_spelling_is_left() -> None:
    encoded = base64.b64encode(b"bob:hunter2!").decode()
    request = Request(url="https://h.example/", name="h", secrets=("hunter2!", "a+b/c"))
    assert encoded[-4:] not in redact(f"Basic {encoded}", request)
    assert "a%2bb" not in redact("a%2bb%2fc", request)


@pytest.mark.holds("server-echo")
def test_the_longest_of_secrets_that_begin_alike_is_blanked_first() -> None:
    said = without_secrets(
        "key=hunter22, hunter2, a/b%20c a", ("hunter2", "hunter22", "a/b c", "a")
    )
    assert said == "key=***, ***, *** a"


ECHOES = {
    "as it is": SECRET,
    "for a URL": quote(SECRET, ""),
    "in base64": base64.b64encode(SECRET.encode()).decode(),
    "in base64 for a URL": base64.urlsafe_b64encode(SECRET.encode()).decode(),
    "as basic credentials": base64.b64encode(f"someone:{SECRET}".encode()).decode(),
    "behind one byte": base64.b64encode(b"x" + SECRET.encode()).decode(),
    "in capitals": SECRET.upper(),
    "for a page": html.escape(SECRET),
    "for JSON": json.dumps(SECRET)[1:-1].replace("/", "\\/"),
    "behind two bytes": base64.b64encode(b"xy" + SECRET.encode()).decode(),
}


@pytest.mark.holds("server-echo")
@pytest.mark.parametrize("echo", ECHOES.values(), ids=ECHOES)
def test_what_a_server_echoes_is_blanked(echo: str) -> None:
    given = (
        Request(url="https://h.example/", name="h", secrets=(SECRET,)),
        Request(url=f"https://h.example/?token={quote(SECRET, '')}", name="h"),
        Request(url=f"https://someone:{quote(SECRET, '')}@h.example/", name="h"),
        Request(
            url="https://h.example/", name="h", headers=(("Authorization", f"Basic {SECRET}"),)
        ),
    )
    for request in given:
        said = redact(f"you sent <{echo}>, which is wrong", request)
        assert "you sent <" in said
        assert "which is wrong" in said
        for part in (SECRET, quote(SECRET, ""), echo[4:-4]):
            assert part not in said


@pytest.mark.holds("server-echo")
@pytest.mark.parametrize("status", [401, 403, 404, 410, 429, 503])
@pytest.mark.parametrize("split", ["", "\x01", "\u200b"])
def test_what_a_server_calls_its_answer_is_blanked(status: int, split: str) -> None:
    request = Request(url="https://h.example/", name="h", headers=(("X-T", PLAIN),))
    said = f"{PLAIN[:5]}{split}{PLAIN[5:]}"
    reason = said.encode("utf-8") if split != "\u200b" else PLAIN.encode()
    response = httpx.Response(
        status, stream=httpx.ByteStream(said.encode()), extensions={"reason_phrase": reason}
    )
    with pytest.raises((OdfBuildError, TransientError)) as caught:
        http._check_status(response, request)
    error = caught.value.final if isinstance(caught.value, TransientError) else caught.value
    assert isinstance(error, OdfBuildError)
    for text in (error.what, error.why):
        assert PLAIN not in text.replace("\x01", "")
        assert PLAIN[5:] not in text


@pytest.mark.holds("server-echo")
@pytest.mark.parametrize("url", URLS)
def test_an_address_is_shown_without_its_credentials(url: str) -> None:
    assert PLAIN not in printable(url)
    assert "h.example/x" in printable(url) or "b.example/x" in printable(url)


# Cuts

CUT: dict[str, Callable[[str], str]] = {
    "an error": lambda text: redacted(bounded(text)),  # as it is shown
    "an excerpt": lambda text: excerpt(text, 300),
    "what a program said": lambda text: last_words(text.encode()),
    "its command": lambda text: pipe._shown(["fetch", text]),
    "a value of a file": problems.quoted,
    "a name in a list": outside.cut,
}


@pytest.mark.holds("server-cut")
@pytest.mark.parametrize("url", URLS[:4])
@pytest.mark.parametrize("cut", CUT)
def test_a_cut_leaves_no_part_of_a_credential(cut: str, url: str) -> None:
    for before in (0, 5, 20, 45, 60, 70, 85, 200, 280, 295, 1650, 1690, 1780, 1800, 1990, 2000):
        for after in ("", " it ends " + "y" * 2400):
            shown = CUT[cut]("x" * before + " " + url + after)
            assert not [at for at in range(len(PLAIN) - 4) if PLAIN[at : at + 5] in shown], shown


@pytest.mark.holds("server-cut")
@pytest.mark.parametrize("length", [150, 700, 4000, 4896, 4900, 5000, 9000])
def test_the_beginning_of_an_answer_holds_no_part_of_a_credential(length: int) -> None:
    request = Request(url="https://h.example/", name="h", headers=(("X-Key", PLAIN),))
    for blank in (" ", "x"):
        for at in range(length - len(PLAIN), length, 3):
            body = (blank * at + PLAIN).encode() + b" " + b"z" * 9000
            response = httpx.Response(500, stream=httpx.ByteStream(body[:length]))
            assert PLAIN[:5] not in http._excerpt(response, request) or length < 4896


# Chains


@pytest.mark.holds("terminal-credentials")
@pytest.mark.parametrize(
    "fetch",
    [*FETCHES, f"{{kind: Mqtt, host: h, port: 1, password: {PLAIN}, topics: [{{path: a}}]}}"],
)
def test_credentials_of_a_chain_are_not_printed(
    fetch: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (document,) = read_documents(SOURCE.format(fetch=fetch), "a.yaml")
    _, _, snapshot = from_manifest(document.value)
    block = MetadataBlock(
        system_time=NOON, prev_block_hash=None, sequence_number=0, event=snapshot.metadata[0]
    )
    (tmp_path / "block").write_bytes(encode_block(block))
    here = Within(tmp_path, capsys, monkeypatch)
    shown = here.done("inspect", "block", "block")
    log = block_text(block_hash(encode_block(block)), block)
    assert PLAIN not in shown + log
    assert "***" in shown
    assert "***" in log
    assert "-o json" in shown.splitlines()[1]
    exact = json.loads(here.done("inspect", "block", "block", "-o", "json"))
    assert from_manifest(exact)[2] == block


# Pages

PAGES = {
    "a cell": ("Csv", "t,k,v\n2024-01-01,a,{echo}\n"),
    "a cell that is cut": ("Csv", "t,k,v\n2024-01-01,a," + "x" * 41 + "{echo}\n"),
    "many cells": ("Csv", "t,k,v\n" + "2024-01-01,a,{echo}\n" * 9),
    "a row of another width": ("Csv", "t,k,v\n2024-01-01,a,1,{echo},{echo}\n"),
    "a header": ("Csv", "t,t,{echo}\n2024-01-01,a,1\n"),
    "a line of JSON": ("NdJson", '{"t": "2024-01-01", "k": "a", "v": "{echo}"}\n'),
    "broken JSON": ("NdJson", '{"t": "2024-01-01", "k": "{echo}\n'),
    "a document": ("Json", '[{"t": "2024-01-01", "k": "a", "v": "{echo}"}]'),
    "a feature": (
        "GeoJson",
        '{"type": "FeatureCollection", "features": [{"type": "Feature", "geometry": null, '
        '"properties": {"t": "2024-01-01", "k": "a", "v": "{echo}"}}]}',
    ),
    "a new column": ("NdJson", '{"t": "2024-01-01", "k": "a", "v": 1, "{echo}": 1}\n'),
    "a key twice": ("Csv", "t,k,v\n2024-01-01,{echo},1\n2024-01-01,{echo},2\n"),
}
TAKEN_IN = ("a header", "a new column", "a key twice")
REPEATED_NOWHERE = ("a row of another width", "broken JSON")
SENT = "tok3n-0f-ours"
FETCH = {
    "in the URL": "{kind: Url, url: '%s?t=${{ env.OURS }}'}",
    "as the password": "{kind: Url, url: '%s'}",
    "in a header": "{kind: Url, url: '%s', headers: [{name: X, value: 'a ${{ env.OURS }}'}]}",
    "as it is": f"{{kind: Url, url: '%s', headers: [{{name: X-Api-Key, value: {SENT}}}]}}",
}
ECHOED = {
    "as it is": SENT,
    "in capitals": SENT.upper(),
    "in base64": base64.b64encode(f"me:{SENT}".encode()).decode(),
}


@pytest.mark.holds("server-page")
@pytest.mark.parametrize(
    ("page", "way", "echo"),
    [(page, "in the URL", "as it is") for page in PAGES]
    + [("a cell that is cut", way, "as it is") for way in FETCH if way != "in the URL"]
    + [("a cell", "in a header", echo) for echo in ECHOED],
)
def test_what_a_page_repeats_of_a_request_is_in_no_message(
    page: str,
    way: str,
    echo: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy = "odfbuild_policy: 1\nliteral_secrets: true\nsource_env: [OURS]\n"
    (tmp_path / "policy.yaml").write_text(policy, "utf-8")
    monkeypatch.setenv("ODFBUILD_POLICY", str(tmp_path / "policy.yaml"))
    monkeypatch.setenv("OURS", SENT)
    kind, text = PAGES[page]
    with serving() as server:
        where = server.put("/rows", Page(body=text.replace("{echo}", ECHOED[echo]).encode()))
        if way == "as the password":
            where = where.replace("//", "//me:${{ env.OURS }}@")
        source = root(fetch=FETCH[way].replace("%s", where))
        if kind != "Csv":
            source = source.replace("kind: Csv, header: true", f"kind: {kind}")
        project = lay_out(tmp_path / "project", {"datasets/src.yaml": source})
        ours = Inside(project, capsys, monkeypatch, FakeEngine())
        done = ours("apply", "--yes", "--report", f"openlineage={project / 'events'}")
    assert done.code == (0 if page in TAKEN_IN else 4), done.err
    shown = [done.out, done.err, ours("runs").out, ours("runs", "-o", "json").out]
    kept = [each for each in project.glob(".odfbuild/runs/**/*") if each.name != "plan.json"]
    kept.append(project / "events")
    shown += [each.read_text("utf-8") for each in kept if each.is_file()]
    for part in (ECHOED[echo], ECHOED[echo][:5], ECHOED[echo][4:-4]):
        assert not [each for each in shown if part in each], part
    assert "***" in done.err or page in REPEATED_NOWHERE
