"""What must hold of the event times that a source gives: where they are, and how written."""

import re

from odfbuild.odf.backtracking import CostlyPatternError, check_cost
from odfbuild.odf.events import (
    EventTimeSource,
    EventTimeSourceFromMetadata,
    EventTimeSourceFromPath,
    FetchStepFilesGlob,
    SourceOrdering,
)
from odfbuild.odf.timeformat import UnknownTimePartError, named_groups, strptime_form
from odfbuild.project.findings import Findings
from odfbuild.project.places import Path

__all__ = ["check_event_time", "check_order"]


def check_order(fetch: FetchStepFilesGlob, path: Path, findings: Findings) -> None:
    """Check that the order of files can be known."""
    by_time = fetch.order is SourceOrdering.BY_EVENT_TIME
    if by_time and not isinstance(fetch.event_time, EventTimeSourceFromPath):
        findings.refuse(
            "event-time-source",
            path,
            "files cannot be put in the order of times that nothing tells",
            "the order has to be known before a file is read, so the names must hold the times",
            "say where with `eventTime: {kind: FromPath, pattern: ...}`, or order them ByName",
        )


def check_event_time(
    source: EventTimeSource | None,
    impossible: type[EventTimeSourceFromMetadata] | None,
    path: Path,
    findings: Findings,
) -> None:
    """Check that a source has what its event time is said to come from."""
    if impossible is not None and isinstance(source, impossible):
        findings.refuse(
            "event-time-source",
            (*path, "eventTime", "kind"),
            "FromMetadata does not work with FilesGlob",
            "names of files hold times, answers of servers have metadata; not the other way round",
            "use FromPath or FromSystemTime",
        )
    elif isinstance(source, EventTimeSourceFromPath):
        _check_pattern(source.pattern, (*path, "eventTime", "pattern"), findings)
        form = source.timestamp_format
        _check_form(form, (*path, "eventTime", "timestampFormat"), findings)


def _check_pattern(pattern: str, path: Path, findings: Findings) -> None:
    try:
        check_cost(named_groups(pattern))
        groups = re.compile(named_groups(pattern)).groups
        why = "the time is what its first group matches"
    except CostlyPatternError as error:
        findings.refuse(
            "event-time-pattern",
            path,
            "a search with this pattern may take without end",
            str(error),
            r"write no repeat in a repeat and few `.*`: for example (\d+-\d+-\d+)\.csv",
        )
        return
    except (re.error, RecursionError, OverflowError) as error:
        groups = 0
        why = f"it is no regular expression: {error}"
    if groups == 0:
        findings.refuse(
            "event-time-pattern",
            path,
            "no time can be found with this pattern",
            why,
            r"write for example (\d+-\d+-\d+)\.csv",
        )


def _check_form(form: str | None, path: Path, findings: Findings) -> None:
    try:
        strptime_form(form or "%Y")
    except UnknownTimePartError as error:
        findings.refuse(
            "event-time-pattern",
            path,
            f"the format has the part '{error.part}', which is not known",
            "a format without % is read as Java's SimpleDateFormat, one with it as strftime's",
            "use letters such as yyyy-MM-dd HH:mm:ss, or strftime's %Y-%m-%d %H:%M:%S",
        )
