"""Every option of CSV against Python's own csv module and strptime."""

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.executors.ingest.read.problems import UnsupportedReadError
from odfbuild.odf.events import ReadStepCsv
from tests.executors.ingest.read.reading import refusal_of, rows_of

TEXTS = ReadStepCsv(ddl_schema=("a STRING", "b STRING"))

_signs = st.sampled_from(",;|\t:~")
_quotes = st.sampled_from("\"'`^")
_cells = st.text(st.sampled_from("ab ,;|\t:~\"'`^é\n"), min_size=1, max_size=6)


def written(rows: Sequence[tuple[str, ...]], **dialect: Any) -> str:
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\n", **dialect).writerows(rows)
    return out.getvalue()


@given(st.lists(st.tuples(_cells, _cells), min_size=1, max_size=8), _signs, _quotes)
def test_any_separator_and_quote_read_what_python_wrote(
    rows: list[tuple[str, str]], separator: str, quote: str
) -> None:
    step = replace(TEXTS, separator=separator, quote=quote, escape="")
    data = written(rows, delimiter=separator, quotechar=quote, quoting=csv.QUOTE_ALL)
    assert rows_of(step, data) == rows
    minimal = written(rows, delimiter=separator, quotechar=quote)
    assert rows_of(step, minimal) == rows


@given(st.lists(st.tuples(_cells, _cells), min_size=1, max_size=8), st.sampled_from("\\!/"))
def test_any_escape_reads_what_python_wrote(rows: list[tuple[str, str]], escape: str) -> None:
    dialect = {"escapechar": escape, "doublequote": False, "quoting": csv.QUOTE_ALL}
    assert rows_of(replace(TEXTS, escape=escape), written(rows, **dialect)) == rows


@given(st.lists(st.tuples(_cells, _cells), min_size=1, max_size=8))
def test_without_quotes_every_sign_is_one_of_the_text(rows: list[tuple[str, str]]) -> None:
    plain = [tuple(cell.replace(",", "").replace("\n", "") or "x" for cell in row) for row in rows]
    data = "".join(",".join(row) + "\n" for row in plain)
    assert rows_of(replace(TEXTS, quote=""), data) == plain


@pytest.mark.parametrize(
    "encoding",
    ["utf8", "UTF-8", "latin-1", "iso-8859-15", "cp1252", "cp1251", "utf-16", "utf-16-le",
     "utf-32", "shift_jis", "gbk", "koi8-r", "mac-roman"],
)  # fmt: skip
def test_every_encoding_of_python_is_known(encoding: str) -> None:
    text = "x" if encoding == "cp1251" else "é" if encoding in {"latin-1", "cp1252"} else "b"
    data = f'a,"{text}\n,"\n'.encode(encoding)
    assert rows_of(replace(TEXTS, encoding=encoding), data) == [("a", f"{text}\n,")]


@pytest.mark.parametrize("null", ["NULL", "\\N", "n/a", "-", "  ", "é", "a b", "1.5"])
def test_null_values_of_any_length_are_null_in_every_type(null: str) -> None:
    columns = ("a STRING", "b INT", "c DOUBLE", "d DATE", "e BOOLEAN", "f DECIMAL(3,1)", "g UUID")
    step = ReadStepCsv(ddl_schema=columns, null_value=null)
    data = ",".join([null] * len(columns)) + "\n" + "," * (len(columns) - 1) + "\n"
    assert rows_of(step, data) == [(None,) * len(columns)] * 2
    quoted = rows_of(replace(step, ddl_schema=("a STRING", "b INT")), f'"{null}","{null}"\n')
    assert quoted == [(null, None)]


DATES = {  # Java's pattern, strftime's, how the day is written
    "yyyy-MM-dd": ("%Y-%m-%d", "2024-02-29"),
    "dd/MM/yyyy": ("%d/%m/%Y", "29/02/2024"),
    "d.M.yyyy": ("%d.%m.%Y", "29.2.2024"),
    "MM/dd/yy": ("%m/%d/%y", "02/29/24"),
    "yyyyMMdd": ("%Y%m%d", "20240229"),
    "dd MMM yyyy": ("%d %b %Y", "29 Feb 2024"),
    "MMMM dd, yyyy": ("%B %d, %Y", "February 29, 2024"),
    "EEE dd MMM yyyy": ("%a %d %b %Y", "Thu 29 Feb 2024"),
    "yyyy-DDD": ("%Y-%j", "2024-060"),
}
TIMES = {
    "yyyy-MM-dd HH:mm:ss": ("%Y-%m-%d %H:%M:%S", "2024-02-29 23:05:06"),
    "yyyy-MM-dd'T'HH:mm:ss.SSS": ("%Y-%m-%dT%H:%M:%S.%f", "2024-02-29T23:05:06.789"),
    "dd/MM/yyyy hh:mm a": ("%d/%m/%Y %I:%M %p", "29/02/2024 11:05 PM"),
    "yyyy-MM-dd HH:mm:ssZ": ("%Y-%m-%d %H:%M:%S%z", "2024-02-29 23:05:06+0200"),
    "yyyyMMddHHmmss": ("%Y%m%d%H%M%S", "20240229230506"),
}


@pytest.mark.parametrize("java", DATES)
def test_dates_of_a_java_pattern_are_those_of_strptime(java: str) -> None:
    strftime, text = DATES[java]
    expected = datetime.strptime(text, strftime).date()
    assert expected == date(2024, 2, 29)
    for form in (java, strftime):
        step = ReadStepCsv(ddl_schema=("a DATE",), date_format=form)
        assert rows_of(step, f'"{text}"\n') == [(expected,)]


@pytest.mark.parametrize("java", TIMES)
def test_times_of_a_java_pattern_are_those_of_strptime(java: str) -> None:
    strftime, text = TIMES[java]
    found = datetime.strptime(text, strftime)
    expected = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    for form in (java, strftime):
        step = ReadStepCsv(ddl_schema=("a TIMESTAMP",), timestamp_format=form)
        assert rows_of(step, f'"{text}"\n') == [(expected,)]


@pytest.mark.parametrize("form", ["yyyy-QQ", "GGGG", "no pattern", "%Q"])
def test_a_pattern_that_is_not_known_is_refused(form: str) -> None:
    step = ReadStepCsv(ddl_schema=("a DATE",), date_format=form)
    refusal_of(step, "1\n", UnsupportedReadError)


def test_a_format_of_dates_leaves_times_alone_and_the_other_way_round() -> None:
    columns = ("a DATE", "b TIMESTAMP")
    dates = ReadStepCsv(ddl_schema=columns, date_format="dd/MM/yyyy")
    moment = datetime(2024, 2, 29, tzinfo=UTC)
    assert rows_of(dates, "29/02/2024,2024-02-29\n") == [(moment.date(), moment)]
    times = ReadStepCsv(ddl_schema=columns, timestamp_format="dd/MM/yyyy")
    assert rows_of(times, "2024-02-29,29/02/2024\n") == [(moment.date(), moment)]


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("infer", [True, False])
def test_header_and_inference_go_together(header: bool, infer: bool) -> None:
    step = ReadStepCsv(header=header, infer_schema=infer)
    data = ("x,y\n" if header else "") + "1,a\n,b\n"
    one: Any = 1 if infer else "1"
    assert rows_of(step, data) == [(one, "a"), (None, "b")]


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ("id,naem", None),
        ("Id,Name", None),
        ("name,id", None),
        ("name,no", "the header has no instead of id"),
        ("name,extra,more", "3 columns in the file, 2 in the schema"),
    ],
)
def test_a_header_that_shares_names_in_other_places_is_refused(
    header: str, says: str | None
) -> None:
    step = ReadStepCsv(header=True, ddl_schema=("id STRING", "name STRING"))
    if says is not None:
        assert says in refusal_of(step, f"{header}\n1,2{',3' * (header.count(',') - 1)}\n").what
    else:
        expected = ("2", "1") if header == "name,id" else ("1", "2")
        assert rows_of(step, f"{header}\n1,2\n") == [expected]
