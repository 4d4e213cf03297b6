"""Session of the language server: what it takes from a client, and how it ends."""

import json
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.editor.project import EditedProject
from odfbuild.cli.editor.uris import path_of
from tests.cli.editor.client import COMMANDS, editor, started
from tests.support.process.inside import lay_out
from tests.support.projects import environment
from tests.support.projects.texts import derivative, root

_WAIT = 40  # seconds


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return lay_out(
        tmp_path / "project", {"datasets/src.yaml": root(), "datasets/out.yaml": derivative()}
    )


def test_messages_that_are_none_are_answered_with_errors_and_the_rest_goes_on(folder: Path) -> None:
    out = folder / "datasets/out.yaml"
    with editor(folder) as it:
        it.send(b"Nonsense: 1\r\n")
        it.post(b"{ no json")
        it.post(b"[" * 100_000)
        it.post(b'{"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": {"x": 1}}')
        it.post(b'{"jsonrpc": "1.0", "id": 1, "method": "shutdown"}')
        it.post(json.dumps([1, 2, None]).encode())
        it.notify("textDocument/didChange", {"textDocument": {"uri": out.as_uri(), "version": 3}})
        it.notify("no/such", {})
        assert it.answer("no/such", {})["error"]["code"] == -32601
        it.notify("textDocument/didClose", {"textDocument": 1})
        it.open(out, "kind: [\n")
        it.codes(out, "yaml-syntax")
        assert it.end() == 0


_METHODS = [
    *(
        f"textDocument/{name}"
        for name in [
            "completion",
            "hover",
            "definition",
            "references",
            "prepareRename",
            "rename",
            "codeAction",
        ]
    ),
    "workspace/symbol",
    "$/no",
    "",
    "textDocument/didOpen",
]


def _value(draw: random.Random, depth: int = 3) -> object:
    """Return any value of JSON, often one of the names and forms that parameters have."""
    plain: list[object] = [None, True, -1, 2**31, 1.5, "", "file:///", "x" * 300, "\ud800", [], {}]
    if depth == 0 or draw.random() < 0.3:
        return draw.choice(plain)
    if draw.random() < 0.2:
        return [_value(draw, depth - 1) for _ in range(draw.randrange(3))]
    names = [
        "textDocument",
        "position",
        "uri",
        "line",
        "character",
        "context",
        "newName",
        "jsonrpc",
    ]
    return {name: _value(draw, depth - 1) for name in draw.sample(names, draw.randrange(5))}


def test_each_request_is_answered_whatever_its_parameters_are(folder: Path) -> None:
    draw = random.Random(5)
    requests = {
        number: {"method": draw.choice(_METHODS), "params": _value(draw)}
        for number in range(1000, 1300)
    }
    right = {"method": "textDocument/hover", "params": {}}
    place = {"line": 0, "character": 2**31}  # more than a position may have
    right["params"] = {"textDocument": {"uri": folder.as_uri()}, "position": place}
    with editor(folder) as it:
        answers = it.answers({**requests, 1: right})
        assert answers[1]["error"]["code"] == -32602
        assert sum("error" in each for each in answers.values()) > 250
        assert it.end() == 0


def test_a_request_at_the_wrong_time_is_answered_with_an_error(folder: Path) -> None:
    with started(folder) as it:
        assert it.answer("textDocument/hover", {})["error"]["code"] == -32002
        it.notify("textDocument/didOpen", {"textDocument": {}})
        it.begin(folder)
        assert it.answer("initialize", {"capabilities": {}})["error"]["code"] == -32600
        it.ask("shutdown")
        assert it.answer("textDocument/hover", {})["error"]["code"] == -32600
        it.notify("exit")
        assert it.process.wait(_WAIT) == 0


@pytest.mark.parametrize(
    "headers",
    [
        "content-length: {}\r\n\r\n",
        "CONTENT-LENGTH:{} \r\n\r\n",
        "Content-Length: 000{}\r\nContent-Type: application/vscode-jsonrpc; charset=utf-8\r\n\r\n",
        "Content-Type: text\r\nContent-Length: {}\r\n\r\n",
        "\r\n\r\nContent-Length: -5\r\nContent-Length: {}\r\n\r\n",
    ],
)
def test_headers_are_read_as_those_of_http(folder: Path, headers: str) -> None:
    body = b'{"jsonrpc": "2.0", "id": 77, "method": "shutdown"}'
    with editor(folder) as it:
        it.send(headers.format(len(body)).encode() + body)
        assert it.answers({78: {"method": "x"}})[78]["error"]["code"] == -32600
        it.notify("exit")
        assert it.process.wait(_WAIT) == 0


def test_it_is_started_as_editors_start_a_server(folder: Path) -> None:
    """The client of VS Code adds `--stdio` to any command."""
    out = folder / "datasets/out.yaml"
    with started(folder, "--stdio") as it:
        it.begin(folder)
        it.open(out, "kind: [\n")
        it.codes(out, "yaml-syntax")
        assert it.end() == 0


@pytest.mark.parametrize("data", [None, b"", b"Content-Length: 2\r\n\r\n{}"])
def test_a_file_in_the_place_of_a_client_ends_the_server(
    folder: Path, tmp_path: Path, data: bytes | None
) -> None:
    place = Path("/dev/null")
    if data is not None:
        place = tmp_path / "messages"
        place.write_bytes(data)
    program = Path(sys.executable).parent / "odfbuild"
    with place.open("rb") as given:
        done = subprocess.run(
            [program, "lsp"],
            cwd=folder, stdin=given, capture_output=True, env=environment(), timeout=_WAIT,
            check=False,
        )  # fmt: skip
    assert (done.returncode, b"Traceback" in done.stderr) == (1, False), done.stderr


@pytest.mark.parametrize(
    "data",
    [
        b"x" * 200_000,
        b"Content-Length: 99999999999999\r\n",
        b"Content-Length: " + b"9" * 5000,
    ],
    ids=["a line", "a size", "a number"],
)
def test_a_stream_that_cannot_be_followed_ends_the_server(folder: Path, data: bytes) -> None:
    with editor(folder) as it:
        with suppress(BrokenPipeError):
            it.send(data + b"\r\n")
        assert it.process.wait(_WAIT) == 1
        assert it.process.stderr is not None
        assert it.process.stderr.read().startswith(b"odfbuild lsp: a ")


@pytest.mark.parametrize("name", ["a%41", "a%23", "a#b", "a?b", "a;b", "a b", "a\\b", "ä😀"])
def test_a_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    folder = lay_out(tmp_path / name, {"datasets/out.yaml;v=1.yaml": "kind: [\n"})
    with editor(folder) as it:  # nothing is opened: the folder is found by its URI
        it.codes(folder / "datasets/out.yaml;v=1.yaml", "yaml-syntax")
        assert it.end() == 0


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///a%2541/b%3Bc;d", "/a%41/b;c;d"),
        ("file://localhost/a//b/../c", "/a/c"),
        ("file:///a?b", "/a"),
        ("FILE:///a", "/a"),
        ("file:///%ff", "/\udcff"),
        ("file://elsewhere/a", None),
        ("file:a", None),
        ("file:///a%00", None),
        ("http://[", None),
        ("untitled:a", None),
    ],
)
def test_a_uri_is_decoded_once(uri: str, path: str | None) -> None:
    assert path_of(uri) == (None if path is None else Path(path))


def test_a_document_of_a_name_that_no_file_may_have_is_passed_over(folder: Path) -> None:
    document = {"languageId": "yaml", "version": 1, "text": "kind: [\n"}
    with editor(folder) as it:
        for uri in (f"{folder.as_uri()}/datasets/{'x' * 5000}.yaml", "file:///dev/null/x.yaml"):
            it.notify("textDocument/didOpen", {"textDocument": {**document, "uri": uri}})
        it.open(folder / "datasets/out.yaml", "kind: [\n")
        it.codes(folder / "datasets/out.yaml", "yaml-syntax")
        assert it.end() == 0


@pytest.mark.parametrize(
    "uri",
    ["untitled:one", "file://else.where/x.yaml", "file:///a%00b.yaml", "file:", "http://[", "::"],
)
def test_documents_that_are_no_files_here_are_passed_over(folder: Path, uri: str) -> None:
    out = folder / "datasets/out.yaml"
    with editor(folder) as it:
        document = {"uri": uri, "languageId": "yaml", "version": 1, "text": "kind: ["}
        it.notify("textDocument/didOpen", {"textDocument": document})
        it.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
        it.open(out, "kind: [\n")
        it.codes(out, "yaml-syntax")
        assert it.end() == 0


_HOSTILE = {
    "too-large": "#" * (16 * 1024 * 1024 + 1),
    "too-deep": "[" * 5_000,
    "endless": "a: &a [*a]",
    "not-text": "kind: \ud800",
    "controls": "kind: \x00\x1b[2J",
    "laughs": "a: &a [x, x]\n" + "".join(f"b{n}: &b{n} [*a, *a, *a]\n" for n in range(50)),
    "tabs": "kind:\n\tx: 1\n",
    "separators": "kind: a\u2028b\u0085c\x0bd\nversion: [\n",
    "digits": "version: " + "9" * 100_000,
}


def test_hostile_documents_are_findings_at_their_places(folder: Path) -> None:
    out = folder / "datasets/out.yaml"
    project = EditedProject(folder, ProjectArguments(), COMMANDS)
    for name, text in _HOSTILE.items():
        began = time.process_time()
        found = project.report({str(out): text.encode("utf-8", "surrogatepass")}).found
        assert found, name
        assert all(each.code != "internal" for each in found), (name, found)
        assert {each.span and each.span.file for each in found} == {"datasets/out.yaml"}, name
        assert time.process_time() - began < 20, name
    assert project.report({}).found == ()


def test_hostile_documents_leave_the_server_as_it_was(folder: Path) -> None:
    out = folder / "datasets/out.yaml"
    with editor(folder) as it:
        it.open(out, "kind: [\n")
        it.codes(out, "yaml-syntax")
        for text in _HOSTILE.values():
            it.change(out, text)
        it.change(out, derivative())
        it.codes(out)
        assert it.end() == 0


def test_what_a_client_ends_without_asking_is_an_error_code(folder: Path) -> None:
    with editor(folder) as it:
        it.notify("exit")
        assert it.process.wait(_WAIT) == 1


def test_the_server_ends_with_its_client(folder: Path) -> None:
    with editor(folder) as it:
        assert it.process.stdin is not None
        it.process.stdin.close()
        assert it.process.wait(_WAIT) == 1
    with started(folder) as it:
        it.send(b"Content-Length: 500\r\n\r\n{")  # in the middle of a message
        assert it.process.stdin is not None
        it.process.stdin.close()
        assert it.process.wait(_WAIT) == 1


def test_the_server_ends_with_the_process_of_its_client_though_the_pipes_are_open(
    folder: Path,
) -> None:
    with subprocess.Popen(["/bin/sleep", "600"]) as client, started(folder) as it:
        it.begin(folder, process=client.pid)
        client.kill()
        client.wait()
        assert it.process.wait(_WAIT) == 1
    with started(folder) as it:  # of another machine, or of a container's outside
        it.begin(folder, process=client.pid)
        assert it.end() == 0


def test_a_signal_ends_the_server_while_the_client_waits(folder: Path) -> None:
    with editor(folder) as it:
        it.process.send_signal(signal.SIGTERM)
        assert it.process.wait(_WAIT) == 128 + signal.SIGTERM


def test_what_python_of_a_project_prints_is_no_message(folder: Path, tmp_path: Path) -> None:
    lay_out(
        folder,
        {
            "odfbuild.yaml": "odfbuild: 1\nmacros: {python: true}\n",
            "macros/said.py": "def name():\n    print('hello')\n    return 'out'\n",
            "datasets/out.yaml": None,
            "datasets/out.yaml.j2": derivative("{{ py.said.name() }}"),
        },
    )
    out = folder / "datasets/out.yaml.j2"
    policy = tmp_path / "policy.yaml"
    policy.write_text("odfbuild_policy: 1\n", "utf-8")
    with started(folder, ODFBUILD_POLICY=str(policy)) as it:
        it.begin(folder)
        it.codes(folder / "odfbuild.yaml", "python-not-permitted")
    policy.write_text(f"odfbuild_policy: 1\npython: [{folder}]\n", "utf-8")
    with started(folder, ODFBUILD_POLICY=str(policy)) as it:
        it.begin(folder)
        it.open(out, out.read_text("utf-8").replace("select t", "select tt"))
        (found,) = it.codes(out, "unknown-column")
        assert "'tt'" in found["message"]
        assert it.end() == 0
