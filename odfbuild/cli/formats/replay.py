"""Findings of verification and replays, as lines, as JSON values and as findings.  Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from odfbuild.cli.render.diff import row_text
from odfbuild.cli.terminal.console import printable
from odfbuild.texts.json_values import plain_row

if TYPE_CHECKING:
    from odfbuild.cli.formats.findings import FindingLine
    from odfbuild.executors.data.rows import DifferingRow
    from odfbuild.executors.verify.recompute import Recomputed
    from odfbuild.executors.verify.replay import Replayed
    from odfbuild.executors.verify.run import Checked
    from odfbuild.executors.verify.signatures import SignedHead
    from odfbuild.odf.refs import DatasetAlias


def checked_lines(name: str, width: int, checked: Checked) -> Iterator[str]:
    """Yield the line of a dataset, then what does not hold of it."""
    found = checked.found
    mark = "ok" if checked.passed else "FAILED"
    note = f", {found.reencoded:,} encoded again" if found.reencoded else ""
    full = checked.recomputed
    computed = f", computed in full{_by(full.place)}" if full and full.untried is None else ""
    yield (
        f"{name:<{width}}  {mark:<6}  {found.blocks:>6,} blocks  {found.files:>6,} files"
        f"  {found.bytes:>14,} bytes{note}{_count(checked.replayed)}{computed}"
        f"{_signature_text(checked.signed)}"
    )
    for file in found.reencoded_files:
        yield f"  data file {file} has other bytes than recorded, and the recorded rows"
    for finding in found.findings:
        place = "" if finding.block is None else f"block {finding.block}: "
        yield f"  {place}{finding.what}"
    for each in checked.replayed:
        yield from (f"  {line}" for line in replayed_lines(each))
    untried = [each.untried for each in checked.replayed if each.untried is not None]
    for why in dict.fromkeys(untried):
        yield f"  {_steps(untried.count(why))} not run again: {why}"
    if full is not None:
        yield from (f"  {line}" for line in _recomputed_lines(full))


def _recomputed_lines(recomputed: Recomputed) -> Iterator[str]:
    """Yield what does not hold of the rows that stand, and the first of them."""
    if recomputed.untried is not None:
        yield printable(f"not computed in full: {recomputed.untried}")
    for what in recomputed.findings:
        yield printable(f"block {recomputed.sequence}, {recomputed.block}: {what}")
    for sign, row in (("- stands  ", recomputed.surplus), ("+ computed", recomputed.missing)):
        if row is not None:
            yield printable(f"  {sign}  {row_text(row)}")


def _signature_text(signed: SignedHead | None) -> str:
    if signed is None:
        return ""
    who = {"owner": "its own key", "delegate": "a delegated key", "witness": "a witness"}
    return f", signed by {who[signed.voucher.standing.value]} {signed.signed_at}"


def _signed_json(signed: SignedHead) -> Mapping[str, Any]:
    return {
        "standing": signed.voucher.standing.value,
        "key": str(signed.voucher.key),
        "signed_at": str(signed.signed_at),
        "expires": None if signed.expires is None else str(signed.expires),
        "earlier": signed.earlier,
    }


def _count(replayed: Sequence[Replayed]) -> str:
    if not replayed:
        return ""
    tried = sum(each.untried is None for each in replayed)
    of = "" if tried == len(replayed) else f" of {len(replayed):,}"
    there = Counter(each.place for each in replayed if each.place is not None)
    if len(there) == 1 and there.total() == tried:
        by = _by(*there)
    else:
        by = "".join(f", {number:,}{_by(place)[1:]}" for place, number in there.items())
    return f", {tried:,}{of} {'step' if len(replayed) == 1 else 'steps'} run again{by}"


def _by(place: str | None) -> str:
    """Return what is said of a step that another engine carried out."""
    return "" if place is None else f", by {place}"


def _steps(count: int) -> str:
    return "1 step was" if count == 1 else f"{count:,} steps were"


def replayed_lines(replayed: Replayed) -> Iterator[str]:
    """Yield what does not hold of a step that was run again, its first other row last."""
    for what in replayed.findings:
        yield printable(f"block {replayed.sequence}, {replayed.block}: {what}")
    if replayed.row is not None:
        yield from (printable(f"  {line}") for line in _row_lines(replayed.row))


def _row_lines(row: DifferingRow) -> Iterator[str]:
    columns = f" in {', '.join(row.columns)}" if row.columns else ""
    yield f"the first row that differs is that of offset {row.offset:,}{columns}:"
    for sign, each in (("- recorded", row.recorded), ("+ computed", row.computed)):
        yield f"{sign}  {'no such row' if each is None else row_text(each)}"


def checked_json(name: str, checked: Checked) -> Mapping[str, Any]:
    """Return what was found of a dataset."""
    found = checked.found
    return {
        "name": name,
        "id": str(checked.dataset),
        "ok": checked.passed,
        "blocks": found.blocks,
        "files": found.files,
        "bytes": found.bytes,
        "reencoded": found.reencoded,
        "reencoded_files": [str(each) for each in found.reencoded_files],
        "findings": [
            {"block": None if each.block is None else str(each.block), "what": each.what}
            for each in found.findings
        ],
        "steps": [replayed_json(each) for each in checked.replayed],
        "recomputed": None if checked.recomputed is None else _recomputed_json(checked.recomputed),
        "signed": None if checked.signed is None else _signed_json(checked.signed),
    }


def _recomputed_json(recomputed: Recomputed) -> Mapping[str, Any]:
    """Return how the rows that stand compare with the query in full; `not_run` says why not."""
    return {
        "block": str(recomputed.block),
        "sequence": recomputed.sequence,
        "ok": not recomputed.findings and recomputed.untried is None,
        "findings": list(recomputed.findings),
        "first_surplus": plain_row(recomputed.surplus),
        "first_missing": plain_row(recomputed.missing),
        "not_run": recomputed.untried,
        **_place_json(recomputed.place),
    }


def replayed_json(replayed: Replayed) -> Mapping[str, Any]:
    """Return the outcome of running a step again; `not_run` says why it was not."""
    row = replayed.row
    return {
        "block": str(replayed.block),
        "sequence": replayed.sequence,
        "rows": replayed.rows,
        "ok": not replayed.findings and replayed.untried is None,
        "findings": list(replayed.findings),
        "first_difference": None
        if row is None
        else {
            "offset": row.offset,
            "columns": list(row.columns),
            "recorded": plain_row(row.recorded),
            "computed": plain_row(row.computed),
        },
        "not_run": replayed.untried,
        **_place_json(replayed.place),
    }


def _place_json(place: str | None) -> Mapping[str, str]:
    return {} if place is None else {"place": place}


def json_text(document: Mapping[str, Any]) -> str:
    """Return a document of JSON, in lines."""
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)


def junit_findings(name: DatasetAlias | None, checked: Checked) -> Iterator[FindingLine]:
    """Yield what does not hold of a dataset, as findings for CI systems."""
    for finding in checked.found.findings:
        place = "" if finding.block is None else f"block {finding.block}: "
        yield _finding(name, "integrity", f"{place}{finding.what}", "")
    for each in checked.replayed:
        if each.findings:
            what = f"block {each.sequence}, {each.block}: {'; '.join(each.findings)}"
            row = "" if each.row is None else "\n".join(_row_lines(each.row))
            yield _finding(name, f"step {each.sequence}", what, row)
    if checked.recomputed is not None and checked.recomputed.findings:
        lines = list(_recomputed_lines(checked.recomputed))
        yield _finding(name, "recompute", lines[0], "\n".join(lines[1:]))


def _finding(name: DatasetAlias | None, code: str, message: str, why: str) -> FindingLine:
    from odfbuild.cli.formats.findings import FindingLine
    from odfbuild.errors import Level

    return FindingLine(
        code=code,
        name=None,
        level=Level.ERROR,
        message=message,
        why=why,
        ways=(),
        span=None,
        dataset=name,
    )
