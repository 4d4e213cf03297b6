"""Session of the language server: what it takes from a client, and how it ends."""

import json
import signal
import time
from pathlib import Path

import pytest

from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.commands.check.check import project_report
from odfbuild.cli.editor.project import EditedProject
from tests.cli.editor.client import editor, started
from tests.support.process.inside import lay_out
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
    project = EditedProject(folder, ProjectArguments(), project_report)
    for name, text in _HOSTILE.items():
        began = time.process_time()
        found = project.findings({str(out): text.encode("utf-8", "surrogatepass")})
        assert found, name
        assert all(each.code != "internal" for each in found), (name, found)
        assert {each.span and each.span.file for each in found} == {"datasets/out.yaml"}, name
        assert time.process_time() - began < 20, name
    assert project.findings({}) == ()


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
