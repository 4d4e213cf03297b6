"""Code actions: names that a finding suggests, and acceptances of findings of the gate."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Final

from lsprotocol import types

from odfbuild.cli.editor.diagnostics import SOURCE
from odfbuild.cli.editor.positions import DocumentText
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.plan.policy import GateFinding

_MEANT: Final = re.compile(r"did you mean (?:'([^'\n]{1,200})'|(\w{1,200})\(\))\?")
_QUOTES: Final = ("'", '"', "`")


def actions(
    uri: str, text: DocumentText, found: Sequence[types.Diagnostic]
) -> Iterator[types.CodeAction]:
    """Yield a fix for each finding that suggests another name than the one at its range."""
    for each in found:
        meant = _MEANT.search(each.message) if each.source == SOURCE else None
        start, end = text.offset(each.range.start), text.offset(each.range.end)
        written = text.text[start:end]
        quote = written[:1] if written[:1] in _QUOTES and written[-1:] == written[:1] else ""
        bare = written.strip(quote) if quote else written
        if meant is None or not bare or not _is_about(each.message.split("\n")[0], bare):
            continue
        new = meant[1] or meant[2]
        edit = types.TextEdit(each.range, f"{quote}{new}{quote}")
        yield types.CodeAction(
            title=f"Change '{bare}' to '{new}'",
            kind=types.CodeActionKind.QuickFix,
            diagnostics=[each],
            is_preferred=True,
            edit=types.WorkspaceEdit(changes={uri: [edit]}),
        )


def acceptable_finding(found: types.Diagnostic) -> GateFinding | None:
    """Return the finding of the gate that a diagnostic shows, None if it shows none."""
    data = found.data
    if not isinstance(data, dict) or found.source != SOURCE:
        return None
    return str(found.code), DatasetAlias.parse(data["dataset"]), data["column"]


def acceptance(
    found: types.Diagnostic,
    finding: GateFinding,
    until: date,
    edit: types.WorkspaceEdit,
) -> types.CodeAction:
    """Return the acceptance of a finding by an edit of the project file."""
    code, dataset, column = finding
    place = f"{dataset}" if column is None else f"{dataset}, column {column}"
    return types.CodeAction(
        title=f"Accept {code} of {place} until {until} (odfbuild.yaml)",
        kind=types.CodeActionKind.QuickFix,
        diagnostics=[found],
        edit=edit,
    )


def _is_about(what: str, name: str) -> bool:
    """Return whether a message is about a name, also that of a column qualified by its table."""
    return any(each in what for each in (f"'{name}'", f".{name}'", f" {name}()"))
