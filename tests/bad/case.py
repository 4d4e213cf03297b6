"""One bad input: the definition that meets it, what was taken in before, and what must be said."""

import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.support.servers.http import Page

__all__ = ["CSV", "GOOD", "SOURCE", "Bad", "definition", "flow", "pipe", "url", "zipped"]

SOURCE = "datasets/src.yaml"
CSV = "{kind: Csv, header: true, ddlSchema: [k STRING, v INT]}"
GOOD = "k,v\na,1\nb,2\n"
GLOB = "{kind: FilesGlob, path: 'data/*'}"


@dataclass(frozen=True, kw_only=True)
class Bad:
    """A source and its bad input: `code`, `says` and `fix` are what the error must have.

    `good` is taken in before `data` comes; a `page` is answered in the place of a file, after a
    good one if there is `good`.  `files` and, with the bad input, `late` lie in the project; `env`
    and `patches` (by dotted name) are in force throughout.  `was` is the read step of before,
    of plain files, for a definition that is refused itself.  `keeps` says that a download must be
    kept and named, `complaint` what must be in the file of what a command said.
    """

    code: str
    says: str
    fix: str
    data: bytes | str | None = None
    good: bytes | str | None = None
    read: str = CSV
    fetch: str = GLOB
    prepare: str = ""
    preprocess: str = ""
    merge: str = "{kind: Append}"
    time: str = ""
    page: Page | None = None
    files: Mapping[str, bytes | str] = field(default_factory=dict)
    late: Mapping[str, bytes | str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    patches: Mapping[str, object] = field(default_factory=dict)
    was: str | None = None
    keeps: bool = False
    complaint: bytes = b""


def definition(bad: Bad, name: str = "src", *, before: bool = False, folder: str = "data") -> str:
    """Return the definition of a dataset that is fed with the bad input."""
    is_other = before and bad.was is not None
    parts = {
        "fetch": (GLOB if is_other else bad.fetch).replace("data/", f"{folder}/"),
        "prepare": f"[{bad.prepare}]" if bad.prepare and not is_other else "",
        "read": bad.was if is_other else bad.read,
        "preprocess": "" if is_other else bad.preprocess,
        "merge": "{kind: Append}" if is_other else bad.merge,
    }
    lines = [
        "kind: DatasetSnapshot",
        "version: 1",
        "content:",
        f"  name: {name}",
        "  kind: Root",
        "  metadata:",
        "    - kind: SetPollingSource",
        *(f"      {key}: {value}" for key, value in parts.items() if value),
    ]
    if bad.time and not is_other:
        lines += ["    - kind: SetVocab", f"      eventTimeColumn: {bad.time}"]
    return "\n".join([*lines, ""])


def url(where: str, more: str = "") -> str:
    """Return the fetch step of a URL; `$HTTP` and `$FTP` stand for the servers of the tests."""
    return f"{{kind: Url, url: '{where}'{more}}}"


def pipe(*command: str) -> str:
    """Return a prepare step that runs a command."""
    words = ", ".join("'" + word.replace("'", "''") + "'" for word in command)
    return f"{{kind: Pipe, command: [{words}]}}"


def flow(kind: str, *columns: str, **options: str) -> str:
    """Return a read step of declared columns."""
    given = "".join(f", {name}: {value}" for name, value in options.items())
    listed = ", ".join(f"'{column}'" for column in columns)
    schema = f", ddlSchema: [{listed}]" if columns else ""
    return f"{{kind: {kind}{given}{schema}}}"


def zipped(names: Sequence[str], content: str = GOOD) -> bytes:
    """Return an archive of files with the same content."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, content)
    return made.getvalue()
