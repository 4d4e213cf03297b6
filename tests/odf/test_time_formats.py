"""Formats of times: what chrono adds to strftime, Java's letters, and what is none of them."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.odf.read_options import UnknownTimePartError, named_groups, strptime_form


@pytest.mark.parametrize(
    ("form", "text", "time"),
    [
        ("%F %T", "2024-03-04 05:06:07", "2024-03-04T05:06:07"),
        ("%FT%R", "2024-03-04T05:06", "2024-03-04T05:06"),
        ("%D", "03/04/24", "2024-03-04"),
        ("%e %h %Y", " 4 Mar 2024", "2024-03-04"),
        ("%-d.%-m.%Y", "4.3.2024", "2024-03-04"),
        ("%_d %b %Y", " 4 Mar 2024", "2024-03-04"),
        ("%F %l%P", "2024-03-04 5am", "2024-03-04T05:00"),
        ("%F %T%.f", "2024-03-04 05:06:07.089", "2024-03-04T05:06:07.089"),
        ("%F %T,%3f", "2024-03-04 05:06:07,089", "2024-03-04T05:06:07.089"),
        ("100%% %F", "100% 2024-03-04", "2024-03-04"),
        ("yyyy-MM-dd'T'HH:mm", "2024-03-04T05:06", "2024-03-04T05:06"),
        ("yyyy''MM", "2024'03", "2024-03-01"),
        ("d. MMMM yyyy, h 'o''clock' a", "4. March 2024, 5 o'clock AM", "2024-03-04T05:00"),
    ],
)
def test_formats_read_what_they_are_meant_for(form: str, text: str, time: str) -> None:
    assert datetime.strptime(text, strptime_form(form)) == datetime.fromisoformat(time)


@pytest.mark.parametrize(
    "form", ["%F %T%:z", "%F %T%#z", "%F %T%z", "%+", "yyyy-MM-dd'T'HH:mm:ssXXX"]
)
def test_zones_are_read(form: str) -> None:
    text = "2024-03-04 05:06:07+02:00"
    text = text.replace(" ", "T") if form == "%+" or "'T'" in form else text
    offset = datetime.strptime(text, strptime_form(form)).utcoffset()
    assert offset is not None
    assert offset.total_seconds() == 7200


@pytest.mark.parametrize(
    ("form", "part"), [("%Q", "%Q"), ("%F %q", "%q"), ("yyyy-ww", "ww"), ("YYYY", "YYYY")]
)
def test_unknown_parts_are_named(form: str, part: str) -> None:
    with pytest.raises(UnknownTimePartError) as caught:
        strptime_form(form)
    assert caught.value.part == part


@given(st.text("yMdHmsSaEzXZ'%-:. \n", max_size=12))
def test_no_format_fails_otherwise(form: str) -> None:
    try:
        strptime_form(form)
    except UnknownTimePartError as error:
        assert error.part in form


@pytest.mark.parametrize(
    ("pattern", "python"),
    [
        (r"(?<day>\d+)", r"(?P<day>\d+)"),
        (r"(?P<day>\d+)", r"(?P<day>\d+)"),
        (r"(?<=a)(?<!b)(\d+)", r"(?<=a)(?<!b)(\d+)"),
        (r"\(?<x>", r"\(?<x>"),
    ],
)
def test_named_groups_are_written_as_python_does(pattern: str, python: str) -> None:
    assert named_groups(pattern) == python
