"""Client of a language server in another process, down to the bytes of its messages."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any

from odfbuild.cli.commands.author.accept import acceptance_edit
from odfbuild.cli.commands.author.mv import rename_edits
from odfbuild.cli.commands.check.check import project_report
from odfbuild.cli.editor.project import EditorCommands
from tests.support.projects import environment

__all__ = ["COMMANDS", "Editor", "editor", "started"]

COMMANDS = EditorCommands(project_report, rename_edits, acceptance_edit)

_PATIENCE = 40.0  # seconds; machines may be busy


class Editor:
    """An editor that shows documents, and remembers what the server said of each."""

    def __init__(self, cwd: Path, *arguments: str, **env: str) -> None:
        self.process = subprocess.Popen(
            [str(Path(sys.executable).parent / "odfbuild"), "lsp", *arguments],
            cwd=cwd,
            env=environment(**env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.said: dict[str, list[Any]] = {}
        self.history: list[tuple[str, list[str]]] = []  # URI and codes, each time
        self.versions: dict[str, int | None] = {}
        self._heard: Queue[Any] = Queue()
        self._answers: dict[int, Any] = {}
        self._asked = 0
        self._reader = Thread(target=self._listen, daemon=True)
        self._reader.start()

    # messages

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def post(self, body: bytes) -> None:
        """Send the body of a message, whatever it is."""
        self.send(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def notify(self, method: str, params: Any = None) -> None:
        self._post({"jsonrpc": "2.0", "method": method, "params": params})

    def answer(self, method: str, params: Any = None) -> Any:
        """Ask, and return the whole answer: a result or an error."""
        self._asked += 1
        self._post({"jsonrpc": "2.0", "id": self._asked, "method": method, "params": params})
        self._await(lambda: self._asked in self._answers)
        return self._answers.pop(self._asked)

    def answers(self, requests: Mapping[int, Mapping[str, Any]]) -> Mapping[int, Any]:
        """Send requests by their ids, and return the answers once each has one."""
        for number, each in requests.items():
            self._post({"jsonrpc": "2.0", "id": number, **each})
        self._await(lambda: self._answers.keys() >= requests.keys())
        return {number: self._answers.pop(number) for number in requests}

    def ask(self, method: str, params: Any = None) -> Any:
        """Ask, and return the result."""
        found = self.answer(method, params)
        assert "error" not in found, found
        return found["result"]

    # what an editor does

    def begin(
        self, *folders: Path, process: int | None = None, **capabilities: Any
    ) -> Mapping[str, Any]:
        """Initialize with folders; return the capabilities of the server."""
        listed = [{"uri": each.as_uri(), "name": each.name} for each in folders]
        result = self.ask(
            "initialize",
            {
                "processId": process,
                "rootUri": None,
                "capabilities": capabilities,
                "workspaceFolders": listed,
            },
        )
        self.notify("initialized", {})
        found: Mapping[str, Any] = result["capabilities"]
        return found

    def open(self, path: Path, text: str | None = None) -> None:
        shown = path.read_text("utf-8") if text is None else text
        document = {"uri": path.as_uri(), "languageId": "yaml", "version": 1, "text": shown}
        self.versions[path.as_uri()] = 1
        self.notify("textDocument/didOpen", {"textDocument": document})

    def change(self, path: Path, text: str) -> None:
        uri = path.as_uri()
        self.versions[uri] = version = (self.versions[uri] or 0) + 1
        self.notify(
            "textDocument/didChange",
            {"textDocument": {"uri": uri, "version": version}, "contentChanges": [{"text": text}]},
        )

    def close(self, path: Path) -> None:
        self.notify("textDocument/didClose", {"textDocument": {"uri": path.as_uri()}})

    def codes(self, path: Path, *wanted: str) -> list[Any]:
        """Wait until the codes of a file are these, in any order; return its diagnostics."""
        uri = path.as_uri()

        def seen() -> list[str]:
            return sorted(each["code"] for each in self.said.get(uri, []))

        try:
            self._await(lambda: uri in self.said and seen() == sorted(wanted))
        except TimeoutError:
            raise AssertionError(f"{path.name}: {seen()}, not {sorted(wanted)}") from None
        return self.said[uri]

    def end(self) -> int:
        """Ask for the end, and return the exit code."""
        self.ask("shutdown")
        self.notify("exit")
        return self.process.wait(_PATIENCE)

    # reading

    def _post(self, message: Mapping[str, Any]) -> None:
        self.post(json.dumps(message).encode())

    def _await(self, is_done: Any) -> None:
        until = time.monotonic() + _PATIENCE
        while not is_done():
            try:
                self._take(self._heard.get(timeout=max(0.0, until - time.monotonic())))
            except Empty:
                raise TimeoutError from None

    def _take(self, message: Any) -> None:
        assert message is not None, "the server ended"
        if message.get("method") == "textDocument/publishDiagnostics":
            uri, found = message["params"]["uri"], message["params"]["diagnostics"]
            self.said[uri] = found
            self.history.append((uri, [each["code"] for each in found]))
        elif "method" in message and "id" in message:
            self._post({"jsonrpc": "2.0", "id": message["id"], "result": None})
        elif "id" in message and message["id"] is not None:
            self._answers[message["id"]] = message

    def _listen(self) -> None:
        for each in _messages(self.process.stdout):
            self._heard.put(each)
        self._heard.put(None)


def _messages(out: Any) -> Iterator[Any]:
    while header := out.readline():
        if header.lower().startswith(b"content-length:"):
            size = int(header.split(b":")[1])
        elif not header.strip():
            yield json.loads(out.read(size))


@contextmanager
def editor(cwd: Path, *folders: Path, **capabilities: Any) -> Iterator[Editor]:
    """Start a server for folders, by default that of a project, and end it."""
    with started(cwd) as found:
        found.begin(*(folders or (cwd,)), **capabilities)
        yield found


@contextmanager
def started(cwd: Path, *arguments: str, **env: str) -> Iterator[Editor]:
    """Start a server that is not yet initialized, and end it."""
    found = Editor(cwd, *arguments, **env)
    try:
        yield found
    finally:
        found.process.kill()
        found.process.wait()
        for stream in (found.process.stdin, found.process.stderr):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()
        found._reader.join(10)
        assert found.process.stdout is not None
        found.process.stdout.close()
