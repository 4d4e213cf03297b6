"""odfbuild convert: blocks, events and snapshots from YAML, JSON or bytes into one of these."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from odfbuild.cli import exits
from odfbuild.cli.files import read_bounded, refuse_taken, write_new
from odfbuild.cli.render.diagnostics import render_diagnostics
from odfbuild.cli.terminal.console import printable_json
from odfbuild.errors import Diagnostic, Level, OdfBuildError, ProjectError, ProjectErrors
from odfbuild.host.json_text import parse_json
from odfbuild.odf.manifest import MANIFESTS, from_manifest, to_manifest, to_yaml
from odfbuild.odf.manifest.bytes import Manifested, from_bytes, is_canonical, to_bytes
from odfbuild.odf.manifest.errors import ManifestErrors
from odfbuild.odf.wire.blocks import block_hash
from odfbuild.project.checks.findings import Findings
from odfbuild.project.yaml import Document, decode, read_documents

MAX_MANIFEST_BYTES = 64 << 20


class ConvertRefusedError(OdfBuildError):
    """The options of a conversion do not fit its input or output."""

    code = "usage"


class NotOneManifestError(ProjectError):
    """A file holds no manifest, or several."""

    code = "not-one-manifest"


def convert(
    file: Annotated[Path, typer.Argument(help="A block, an event or a snapshot; - is stdin.")],
    output: Annotated[Literal["yaml", "json", "fb"], typer.Option("-o", "--output")] = "yaml",
    out: Annotated[
        Path | None, typer.Option("--out", help="Write to a new file, not to stdout.")
    ] = None,
    kind: Annotated[
        Literal["DatasetSnapshot", "MetadataBlock", "MetadataEvent"] | None,
        typer.Option(
            "--kind", help="The kind of the bytes, if they are not a block. Text needs no kind."
        ),
    ] = None,
    manifest_version: Annotated[
        int | None,
        typer.Option("--manifest-version", metavar="N", help="Write a block in version 2 or 3."),
    ] = None,
) -> int:
    """Convert a manifest to YAML, JSON or FlatBuffers. The format of the input is detected."""
    if output == "fb" and out is None and sys.stdout.isatty():
        raise ConvertRefusedError(
            what="bytes are not written to a terminal",
            why="they could change its state",
            fix="name a file, --out FILE, or send the output elsewhere",
        )
    if out is not None:
        refuse_taken(out)
    data = read_bounded(file, MAX_MANIFEST_BYTES)
    given = _read(data, str(file), kind)
    what = _in_version(given, manifest_version)
    text = _written(what, output, data if what == given else None)
    _say_what_is_lost(given, data, what, output)
    if out is not None:
        write_new(out, text)
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()
    return exits.DONE


def manifest_json(what: Manifested) -> str:
    """Return a manifest as JSON text that is safe to print."""
    manifest = to_manifest(what.kind, what.value, what.version)
    return printable_json(json.dumps(manifest, indent=2, ensure_ascii=False)) + "\n"


def _read(data: bytes, name: str, kind: str | None) -> Manifested:
    """Tell by its content what a file is: text has no zero bytes, and tables always have."""
    if b"\0" in data:
        return from_bytes(data, kind)
    found = _from_text(decode(data, name), name)
    if kind not in (None, found.kind):
        raise ConvertRefusedError(
            what=f"{name} is a {found.kind}, not a {kind}",
            why="a manifest in text states its kind",
            fix="omit --kind",
        )
    return found


def _from_text(text: str, name: str) -> Manifested:
    if (value := _json(text)) is not None:
        return Manifested(*from_manifest(value))
    documents = [each for each in read_documents(text, name) if each.value is not None]
    if len(documents) != 1:
        raise NotOneManifestError(
            what=f"{name} holds {len(documents)} manifests",
            why="one manifest is converted at a time",
            fix="give it one document: kind, version and content",
        )
    return _from_document(documents[0])


def _from_document(document: Document) -> Manifested:
    try:
        return Manifested(*from_manifest(document.value))
    except ManifestErrors as errors:
        findings = Findings(document.value, document.places)
        for each in errors.problems:
            key = each.code in {"unknown-field", "missing-field", "given-twice"}
            findings.refuse(each.code, each.path, each.what, each.why, each.fix, key=key)
        raise ProjectErrors(findings.errors) from None


def _json(text: str) -> Any:
    """Return the object that a JSON text holds, or None: YAML then, where faults have a place."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        value = parse_json(text, object_pairs_hook=_object, parse_constant=_no_constant)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return value


def _object(pairs: list[tuple[str, Any]]) -> Mapping[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not valid JSON")


def _in_version(what: Manifested, version: int | None) -> Manifested:
    if version is None:
        return what
    known = MANIFESTS[what.kind][1]
    if version not in known:
        raise ConvertRefusedError(
            what=f"a {what.kind} has no version {version}",
            why=f"known: {' and '.join(map(str, known))}",
            fix="omit --manifest-version",
        )
    return replace(what, version=version)


def _written(what: Manifested, output: str, unchanged: bytes | None) -> bytes:
    """Return the output; bytes that are wanted as bytes again stay as they are."""
    match output:
        case "fb":
            return unchanged if unchanged is not None and b"\0" in unchanged else to_bytes(what)
        case "json":
            return manifest_json(what).encode()
        case _:
            return to_yaml(what.kind, what.value, what.version).encode()


def _say_what_is_lost(given: Manifested, data: bytes, what: Manifested, output: str) -> None:
    """Say when bytes could not be had again from what is written."""
    if b"\0" not in data or (output == "fb" and what == given):
        return
    if not is_canonical(given, data):
        _note(
            "odfbuild would write other bytes for this block",
            "another program wrote them, or a newer one; the hash of a block is that of its bytes",
        )
    elif output == "fb":
        now = block_hash(to_bytes(what))
        _note(
            f"in version {what.version} the block has another hash: {now}",
            f"the hash of a block is that of its bytes; this one is {block_hash(data)}",
        )


def _note(what: str, why: str) -> None:
    found = Diagnostic(
        code="other-bytes",
        what=what,
        why=why,
        fix="keep the file: copies of blocks are not rewritten",
        level=Level.NOTE,
    )
    sys.stderr.write(render_diagnostics([found]) + "\n")
