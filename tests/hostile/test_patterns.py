"""Regular expressions of strangers: what is admitted ends soon, on the texts that are worst."""

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfbuild.executors.ingest.fetch.local import EventTimeError, from_name
from odfbuild.odf.backtracking import LONGEST_TEXT, CostlyPatternError, check_cost
from odfbuild.odf.events import EventTimeSourceFromMetadata, EventTimeSourceFromPath
from odfbuild.project.checks.findings import Findings
from odfbuild.project.checks.sources import check_event_time
from odfbuild.project.yaml.places import PlaceFinder, SourceText, Spot
from tests.support.effort import examples

ENDLESS = (
    r"^((a+)+)$",
    r"(a*)*b",
    r"(a|a)*b",
    r"(a|aa)+$",
    r"(.*a){20}",
    r"(a?){30}a{30}",
    "a?" * 30 + "a" * 30,
    "(?:a|a)" * 40 + "b",
    ".*" * 4 + "=",
    r"(\w+\s?)+$",
    r"([a-z]+)*1",
    r"(?i)([k]+)+K",
    r"(?:\d+|\d+-)+x",
    r"(?:(?:a+b?)+c?)+d",
    r"(?=(a+)+$)a",
    r"(?:(?:a{1,9}){1,9}){1,9}$",
    r"(x+x+)+y",
    r"^(([a-z])+.)+[A-Z]([a-z])+$",
    r"(?:a(?:b?c?)*)+d",
    r"(?>(a+)+)b",
    r"(?:a+)++b",
    r"(.+)(?:\1)+(.+)+x",
    "a" * 1001,
)
USUAL = (
    r"(\d{4})-(\d{2})",
    r"^(\d{4}-\d{2}-\d{2})\.csv$",
    r"(\d+-\d+-\d+)\.csv",
    r".*_(\d{4}_\d{2}_\d{2})_.*\.csv",
    r"^.*/?data-(?P<day>\d{8})(?:\.csv|\.json)(?:\.gz)?$",
    r"(?:a|b)+(\d)",
    r"(?:[a-z]+-)+(\d+)",
    r"(?i)report[ _-](\d{1,2}-(?:jan|feb|mar|apr|may|jun|jul)-\d{4})",
    r"^[^.]*\.(\d+)\.",
    r"balances-(\d{4}Q[1-4])(?:-v\d+)?\.parquet",
    r"(?<=day=)(\d+)(?!\d)",
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d))",
    r"^(?:\w+\.)*(\d+)$",
    r"^(?:(?:20|19)\d\d)$",
)


@pytest.mark.holds("source-patterns")
@pytest.mark.parametrize("pattern", ENDLESS)
def test_patterns_that_need_not_end_are_refused(pattern: str) -> None:
    with pytest.raises(CostlyPatternError):
        check_cost(pattern)
    with pytest.raises(EventTimeError):
        from_name("a" * 40, pattern, None)


@pytest.mark.parametrize("pattern", USUAL)
def test_usual_patterns_are_admitted(pattern: str) -> None:
    check_cost(pattern)


@pytest.mark.holds("source-patterns")
def test_check_refuses_such_a_pattern_and_a_search_a_long_name() -> None:
    findings = Findings(None, PlaceFinder(SourceText("a.yaml", ""), Spot(0, 0)))
    source = EventTimeSourceFromPath(ENDLESS[0], None)
    check_event_time(source, EventTimeSourceFromMetadata, ("fetch",), findings)
    assert [each.code for each in findings.errors] == ["event-time-pattern"]
    with pytest.raises(EventTimeError, match="characters"):
        from_name("a" * (LONGEST_TEXT + 1), r"(\d+)", None)


def pieces(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    repeats = st.sampled_from(("*", "+", "?", "{2,5}", "{3}", "*?", "*+"))
    return st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("".join),
        st.tuples(inner, inner).map(lambda both: f"(?:{both[0]}|{both[1]})"),
        st.tuples(inner, repeats).map(lambda both: f"(?:{both[0]}){both[1]}"),
    )


PATTERNS = st.recursive(
    st.sampled_from(("a", "b", ".", "[ab]", "[^a]", r"\w", r"\d", r"\b", "a*", ".+", "-")),
    pieces,
    max_leaves=10,
)
TEXTS = st.sampled_from(("a", "ab", "aab", "a-", "b", "1a", "a1-")).map(
    lambda part: (part * LONGEST_TEXT)[: LONGEST_TEXT - 1] + "!"
)


@pytest.mark.holds("source-patterns")
@settings(max_examples=examples(40, 2_000), deadline=None)
@given(PATTERNS, TEXTS, st.sampled_from(("!!", "x", "$(?!!)", "")))
def test_what_is_admitted_ends(pattern: str, text: str, end: str) -> None:
    """A text of one part over and over, and an end that fails, is the worst for a repeat."""
    try:
        check_cost(pattern + end)
    except CostlyPatternError:
        return
    began = time.process_time()
    re.search(pattern + end, text)
    assert time.process_time() - began < 4
