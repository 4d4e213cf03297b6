"""Server of the protocol: receives documents, and sends diagnostics and answers.

Documents are sent in full, as editors and Python do not agree where the lines of a text end.
Projects are checked in the thread that reads messages, so no answer is about half of a change.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import BinaryIO, Final

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.io_ import StdoutWriter
from pygls.lsp.server import LanguageServer

from odfbuild import __version__
from odfbuild.cli.arguments.context import ProjectArguments
from odfbuild.cli.editor.actions import acceptable_finding, acceptance, actions
from odfbuild.cli.editor.completion import completions, field_text
from odfbuild.cli.editor.diagnostics import diagnostics_by_file
from odfbuild.cli.editor.messages import BrokenStreamError, Messages
from odfbuild.cli.editor.names import Occurrence, ReadDefinitions
from odfbuild.cli.editor.positions import DocumentText, difference, meet, range_of
from odfbuild.cli.editor.project import EditedProject, EditorCommands, FileEdit, project_above
from odfbuild.cli.editor.uris import path_of
from odfbuild.cli.formats.check import CheckReport
from odfbuild.errors import OdfBuildError, SourceSpan
from odfbuild.texts.redaction import redacted
from odfbuild.values import dataclass

_PAUSE: Final = 0.03
"""Seconds without a change after which a project is checked; half of a check that takes long."""
_LONGEST_PAUSE: Final = 1.0
_LOOK: Final = 5.0
"""Seconds between checks for the process of the client."""
_WATCHED: Final = "**/*.{yaml,yml,j2,sql,py,csv,json,lock}"


@dataclass(frozen=True, slots=True)
class _OpenDocument:
    """A document that is open in an editor: its version, its URI there, and its text as bytes."""

    version: int | None
    uri: str
    data: bytes
    lines: DocumentText

    @property
    def rows(self) -> list[str]:
        return self.lines.rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A request about a position: the file, its lines, row and column from 0 in characters.

    `known` are the definitions, None if none can be read; `location` returns the location of a
    span.
    """

    file: str
    lines: list[str]
    row: int
    column: int
    known: ReadDefinitions | None
    location: Callable[[SourceSpan], types.Location]

    def name(self) -> Occurrence | None:
        """Return the name at the position."""
        if self.known is None:
            return None
        return self.known.at(self.file, self.row + 1, self.column + 1)

    def dataset(self) -> tuple[str, SourceSpan] | None:
        """Return the dataset named at the position, and the span of its name; None for an alias."""
        found = self.name()
        if found is None or found.column is not None:
            return None
        span, name = found.span, str(found.datasets[0])
        written = (span.excerpt or "")[span.column - 1 :][: span.length].strip("'\"`")
        return (name, span) if written.lower() == name.lower() else None


class EditorServer(LanguageServer):
    """The language server of all projects that an editor has open.

    `given` has target and variables of every project, `against` is a reviewed revision of each.
    """

    def __init__(
        self, given: ProjectArguments, commands: EditorCommands, against: str | None
    ) -> None:
        super().__init__("odfbuild", __version__, types.TextDocumentSyncKind.Full)
        self._given = given
        self._commands = commands
        self._against = against
        self._projects: dict[Path, EditedProject] = {}
        self._shown: dict[str, _OpenDocument] = {}
        self._waiting: dict[Path, asyncio.TimerHandle] = {}
        self._pauses: dict[Path, float] = {}
        self._found: dict[Path, Mapping[str, Sequence[types.Diagnostic]]] = {}
        self._late: dict[Path, Mapping[str, Sequence[types.Diagnostic]]] = {}
        self._published: dict[str, list[types.Diagnostic]] = {}

    @property
    def encoding(self) -> str:
        """The units of positions that client and server agreed on."""
        chosen = self.workspace.position_encoding
        return str(getattr(chosen, "value", chosen))

    def begin(self) -> None:
        """Check the projects of all open folders, and register for changes of files."""
        capabilities = self.client_capabilities.workspace
        watching = None if capabilities is None else capabilities.did_change_watched_files
        if watching is not None and watching.dynamic_registration:
            watcher = types.FileSystemWatcher(glob_pattern=_WATCHED)
            options = types.DidChangeWatchedFilesRegistrationOptions(watchers=[watcher])
            method = types.WORKSPACE_DID_CHANGE_WATCHED_FILES
            asked = types.Registration(id=method, method=method, register_options=options)
            self.client_register_capability(types.RegistrationParams(registrations=[asked]))
        self.folders_changed()

    def follow(self, client: int | None) -> None:
        """End with the process of the client, also if other processes have its ends of the pipes.

        A process that does not exist here is on another machine, or in a container.
        """
        if client is not None and _is_alive(client):
            self._await_end(client)

    def _await_end(self, client: int) -> None:
        if not _is_alive(client):
            raise SystemExit(1)
        asyncio.get_running_loop().call_later(_LOOK, self._await_end, client)

    def folders_changed(self) -> None:
        """Check the projects of folders that were opened, and drop those of closed ones."""
        open_folders = [path for uri in self._folder_uris() if (path := path_of(uri)) is not None]
        for folder in open_folders:
            self.changed(folder)
        for root in list(self._projects):
            mine = any(
                folder.is_relative_to(root) or root.is_relative_to(folder)
                for folder in open_folders
            )
            if not mine and not any(Path(each).is_relative_to(root) for each in self._shown):
                self._forget(root)

    def _folder_uris(self) -> Iterator[str]:
        folders = self.workspace.folders
        if folders:
            yield from (each.uri for each in folders.values())  # the keys are decoded
        elif self.workspace.root_uri is not None:
            yield self.workspace.root_uri

    def shown(self, uri: str) -> None:
        """Store the text of a document that was opened or changed."""
        path = path_of(uri)
        if path is None:
            return
        document = self.workspace.get_text_document(uri)
        text = document.source
        data = text.encode("utf-8", "surrogatepass")
        lines = DocumentText(text, self.encoding)
        self._shown[str(path)] = _OpenDocument(document.version, uri, data, lines)
        self.changed(path)

    def closed(self, uri: str) -> None:
        """Drop the text of a document: from now on the file counts."""
        path = path_of(uri)
        if path is not None:
            self._shown.pop(str(path), None)
            self.changed(path)

    def changed(self, path: Path) -> None:
        """Check the project of a file or folder, once nothing changes for a moment."""
        root = project_above(path)
        readers = [root for root, each in self._projects.items() if each.may_read(path)]
        for each in {*readers, *(() if root is None else (root,))}:
            self._projects.setdefault(each, self._make_project(each))
            waiting = self._waiting.pop(each, None)
            if waiting is not None:
                waiting.cancel()
            pause = self._pauses.get(each, _PAUSE)
            loop = asyncio.get_running_loop()
            self._waiting[each] = loop.call_later(pause, self._judge, each)

    @contextmanager
    def question_at(self, uri: str, position: types.Position) -> Iterator[Question | None]:
        """Yield a question about a position in an open document; None for any other document."""
        path = path_of(uri)
        shown = None if path is None else self._shown.get(str(path))
        root = None if path is None else project_above(path)
        if path is None or shown is None or root is None or position.line >= len(shown.rows):
            yield None
            return
        project = self._projects.setdefault(root, self._make_project(root))
        first, _ = shown.lines.source.line_at(position.line)
        with project.definitions(self._unsaved()) as known:
            yield Question(
                file=path.relative_to(root).as_posix(),
                lines=shown.rows,
                row=position.line,
                column=shown.lines.offset(position) - first,
                known=known,
                location=lambda span: self._location(root, span),
            )

    def fixes(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        """Return the names that findings suggest, and the acceptances of those of the gate."""
        path = path_of(params.text_document.uri)
        shown = None if path is None else self._shown.get(str(path))
        if shown is None:
            return []
        names = actions(shown.uri, shown.lines, params.context.diagnostics)
        return [*names, *self._acceptances(shown.uri, params.range)]

    def _acceptances(self, uri: str, range: types.Range) -> Iterator[types.CodeAction]:
        """Yield the acceptances of findings in a file, each in the project that has it."""
        for root, by_uri in self._found.items():
            for each in by_uri.get(uri, ()):
                finding = acceptable_finding(each)
                if finding is None or not meet(each.range, range):
                    continue
                found = self._projects[root].accepted(self._unsaved(), finding)
                if found is not None:
                    edit, until = found
                    yield acceptance(each, finding, until, self._workspace_edit([edit]))

    def renamed(self, uri: str, old: str, new: str) -> types.WorkspaceEdit:
        """Return the edits that rename a dataset.  Raises JsonRpcException."""
        path = path_of(uri)
        root = None if path is None else project_above(path)
        if root is None:
            return types.WorkspaceEdit()
        project = self._projects.setdefault(root, self._make_project(root))
        try:
            return self._workspace_edit(project.renamed(self._unsaved(), old, new))
        except OdfBuildError as error:
            raise JsonRpcException(
                message=f"{redacted(error.what)}: {redacted(error.fix)}",
                code=types.LSPErrorCodes.RequestFailed.value,
            ) from None

    def _workspace_edit(self, edits: Iterable[FileEdit]) -> types.WorkspaceEdit:
        return types.WorkspaceEdit(
            changes={
                self._uri(each.path): [
                    difference(
                        each.before,
                        each.after,
                        self.encoding,
                        is_shown=str(each.path) in self._shown,
                    )
                ]
                for each in edits
            }
        )

    def _unsaved(self) -> Mapping[str, bytes]:
        return {path: each.data for path, each in self._shown.items()}

    def _location(self, root: Path, span: SourceSpan) -> types.Location:
        line = span.excerpt
        if line is None:
            line = self._line(_file(root, span.file), span.line)
        where = self._uri(_file(root, span.file))
        return types.Location(where, range_of(span, line, self.encoding))

    def _make_project(self, root: Path) -> EditedProject:
        return EditedProject(root, self._given, self._commands, self._against)

    def _judge(self, root: Path) -> None:
        """Publish what a check finds, and then what the gate finds as well, which takes longer.

        Until then, the findings of the gate are those from before.
        """
        self._waiting.pop(root, None)
        project, began, late = self._projects[root], perf_counter(), self._late.get(root, {})
        first: dict[str, Sequence[types.Diagnostic]] | None = None
        found: dict[str, Sequence[types.Diagnostic]] = {}
        for report in project.reports(self._unsaved()):
            found = self._diagnostics(root, report)
            if first is None and report.judged is not None:
                first = found
                found = {u: [*found.get(u, ()), *late.get(u, ())] for u in {**found, **late}}
            self._publish(root, found)
        early = found if first is None else first
        self._late[root] = {
            uri: [each for each in some if each not in early.get(uri, ())]
            for uri, some in found.items()
        }
        is_first, took = root not in self._pauses, perf_counter() - began
        if is_first:
            gc.collect()
            gc.freeze()  # objects of the first check stay, and need not be scanned again
        is_quick = is_first or took < _LONGEST_PAUSE / 2
        self._pauses[root] = _PAUSE if is_quick else min(took / 2, _LONGEST_PAUSE)

    def _diagnostics(
        self, root: Path, report: CheckReport
    ) -> dict[str, Sequence[types.Diagnostic]]:
        by_file = diagnostics_by_file(
            report,
            lambda file: self._uri(_file(root, file)),
            lambda file, row: self._line(_file(root, file), row),
            self.encoding,
        )
        return {self._uri(_file(root, file)): each for file, each in by_file.items()}

    def _publish(self, root: Path, found: Mapping[str, Sequence[types.Diagnostic]]) -> None:
        """Send the diagnostics of files for which they have changed.

        A file of a package may have those of several projects, and a client keeps the last ones.
        """
        before = self._found.pop(root, {})
        if found:
            self._found[root] = found
        versions = {each.uri: each.version for each in self._shown.values()}
        for uri in {**before, **found}:
            now = [one for root in sorted(self._found) for one in self._found[root].get(uri, ())]
            if now != self._published.get(uri, []):
                sent = types.PublishDiagnosticsParams(uri, now, versions.get(uri))
                self.text_document_publish_diagnostics(sent)
            if now:
                self._published[uri] = now
            else:
                self._published.pop(uri, None)

    def _forget(self, root: Path) -> None:
        waiting = self._waiting.pop(root, None)
        if waiting is not None:
            waiting.cancel()
        self._publish(root, {})
        for each in (self._projects, self._pauses, self._late):
            each.pop(root, None)

    def _uri(self, path: Path) -> str:
        """Return the client's URI of a file."""
        known = self._shown.get(str(path))
        return known.uri if known is not None else path.as_uri()

    def _line(self, path: Path, row: int) -> str | None:
        """Return a line of an open file, from 1; None for other files."""
        known = self._shown.get(str(path))
        return None if known is None else known.lines.line(row - 1)


def _file(root: Path, name: str) -> Path:
    """Return a file by its name in findings of a project, which may begin with `..`."""
    return Path(os.path.normpath(root / name))


def _is_alive(process: int) -> bool:
    """Return whether a process with the number that a client sent is on this machine."""
    try:
        os.kill(process, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return process > 0


def make_server(
    given: ProjectArguments, commands: EditorCommands, against: str | None = None
) -> EditorServer:
    """Return a server with all its features."""
    server = EditorServer(given, commands, against)

    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        server.follow(params.process_id)

    @server.feature(types.INITIALIZED)
    def initialized(_: types.InitializedParams) -> None:
        server.begin()

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: types.DidOpenTextDocumentParams) -> None:
        server.shown(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(params: types.DidChangeTextDocumentParams) -> None:
        server.shown(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: types.DidCloseTextDocumentParams) -> None:
        server.closed(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(params: types.DidSaveTextDocumentParams) -> None:
        if (path := path_of(params.text_document.uri)) is not None:
            server.changed(path)

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def files_changed(params: types.DidChangeWatchedFilesParams) -> None:
        for each in params.changes:
            if (path := path_of(each.uri)) is not None:
                server.changed(path)

    @server.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    def folders_changed(_: types.DidChangeWorkspaceFoldersParams) -> None:
        server.folders_changed()

    _answer_questions(server)
    return server


def _answer_questions(server: EditorServer) -> None:
    """Add the features for requests about a position."""

    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    def definition(params: types.DefinitionParams) -> list[types.Location]:
        with server.question_at(params.text_document.uri, params.position) as asked:
            found = None if asked is None else asked.name()
            if asked is None or asked.known is None or found is None:
                return []
            declared = (asked.known.of(each) for each in found.datasets)
            return [asked.location(each.span()) for each in declared if each is not None]

    @server.feature(types.TEXT_DOCUMENT_REFERENCES)
    def references(params: types.ReferenceParams) -> list[types.Location]:
        with server.question_at(params.text_document.uri, params.position) as asked:
            found = None if asked is None else asked.name()
            if asked is None or asked.known is None or found is None or found.column is not None:
                return []
            own = params.context.include_declaration
            occurrences_of = asked.known.occurrences_of(found.datasets[0])
            return [asked.location(each.span) for each in occurrences_of if own or not each.defines]

    @server.feature(types.TEXT_DOCUMENT_RENAME, types.RenameOptions(prepare_provider=True))
    def rename(params: types.RenameParams) -> types.WorkspaceEdit | None:
        with server.question_at(params.text_document.uri, params.position) as asked:
            old = None if asked is None else asked.dataset()
        if old is None:
            return None
        return server.renamed(params.text_document.uri, old[0], params.new_name)

    @server.feature(types.TEXT_DOCUMENT_PREPARE_RENAME)
    def prepare_rename(params: types.PrepareRenameParams) -> types.Range | None:
        with server.question_at(params.text_document.uri, params.position) as asked:
            found = None if asked is None else asked.dataset()
            return None if asked is None or found is None else asked.location(found[1]).range

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(params: types.HoverParams) -> types.Hover | None:
        with server.question_at(params.text_document.uri, params.position) as asked:
            if asked is None:
                return None
            found, text = asked.name(), None
            if found is not None and asked.known is not None:
                text = asked.known.describe(found)
            if text is None:
                text = field_text(asked.file, asked.lines, asked.row, asked.column)
            if text is None:
                return None
            return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text))

    @server.feature(
        types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(trigger_characters=[".", ":", " "])
    )
    def completion(params: types.CompletionParams) -> list[types.CompletionItem]:
        with server.question_at(params.text_document.uri, params.position) as asked:
            if asked is None:
                return []
            return completions(asked.file, asked.lines, asked.row, asked.column, asked.known)

    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION,
        types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix]),
    )
    def code_action(params: types.CodeActionParams) -> list[types.CodeAction]:
        return server.fixes(params)


def serve_stdio(server: EditorServer) -> int:
    """Serve one client over the standard streams; return the exit code.

    It is 0 after `shutdown` and `exit`, 1 if the client ended, or sent `exit` without `shutdown`
    (LSP 3.17, "Exit Notification").  Output of a project's own code goes to standard error, so that
    it cannot become part of a message.
    """
    logging.getLogger("pygls").setLevel(logging.CRITICAL)
    sys.stdout.flush()
    messages = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        with os.fdopen(messages, "wb") as out:
            asyncio.run(_serve(server, out))
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except BrokenStreamError as error:
        sys.stderr.write(f"odfbuild lsp: {error}\n")
        return 1
    except (BrokenPipeError, asyncio.IncompleteReadError):
        return 1
    return 1


def _is_file(number: int) -> bool:
    """Tell whether a stream is a file or a device without an end that waits, as /dev/null."""
    mode = os.fstat(number).st_mode
    return stat.S_ISREG(mode) or (stat.S_ISCHR(mode) and not os.isatty(number))


async def _serve(server: EditorServer, out: BinaryIO) -> None:
    """Read messages until the client ends, without another thread, which could not be ended."""
    reader = asyncio.StreamReader()
    if _is_file(sys.stdin.fileno()):  # which loops cannot wait for, and nobody has to
        reader.feed_data(sys.stdin.buffer.read())
        reader.feed_eof()
    else:
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    writer = StdoutWriter(out)
    server.protocol.set_writer(writer)
    await Messages(server.protocol, writer.write).handle_all(reader)
