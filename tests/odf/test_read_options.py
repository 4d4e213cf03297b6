"""Options of read steps: what they mean to Python, and which are refused, by their keys."""

import codecs

import pytest

from odfbuild.odf.events import (
    ReadStep,
    ReadStepCsv,
    ReadStepGeoJson,
    ReadStepJson,
    ReadStepNdJson,
    ReadStepParquet,
)
from odfbuild.odf.read_options import (
    Dialect,
    ReadOptionError,
    dialect_of,
    encoding_of,
    option_problems,
    pattern_of,
)


def keys(step: ReadStep) -> list[str]:
    return [problem.option for problem in option_problems(step)]


@pytest.mark.parametrize(
    "step",
    [
        *(ReadStepCsv(), ReadStepJson(), ReadStepNdJson(), ReadStepParquet(), ReadStepGeoJson()),
        ReadStepCsv(separator="\t", quote="", escape="", encoding="utf-16"),
        ReadStepCsv(separator=";", quote='"', escape='"', date_format="RFC3339"),
        ReadStepNdJson(encoding="latin-1", date_format="dd/MM/yyyy", timestamp_format="%F %T"),
    ],
)
def test_what_readers_take_is_no_problem(step: ReadStep) -> None:
    assert keys(step) == []


REFUSED: dict[str, tuple[ReadStep, list[str]]] = {
    "all at once": (
        ReadStepCsv(
            encoding="klingon", separator="", quote="ab", escape="é", date_format="-",
            timestamp_format="%Q",
        ),
        ["encoding", "separator", "quote", "escape", "dateFormat", "timestampFormat"],
    ),
    "the default separator as a quote": (ReadStepCsv(quote=","), ["quote"]),
    "the default separator as an escape": (ReadStepCsv(escape=","), ["escape"]),
    "the default quote as a separator": (ReadStepCsv(separator='"'), ["separator"]),
    "the default escape as a separator": (ReadStepCsv(separator="\\"), ["separator"]),
    "a line as a separator": (ReadStepCsv(separator="\r"), ["separator"]),
    "an encoding of bytes": (ReadStepJson(encoding="base64"), ["encoding"]),
    "an encoding that never works": (ReadStepJson(encoding="undefined"), ["encoding"]),
    "an encoding with a null": (ReadStepNdJson(encoding="utf8\0"), ["encoding"]),
    "a part of a date twice": (ReadStepNdJson(date_format="%Y %Y"), ["dateFormat"]),
    "a percent at the end": (ReadStepNdJson(timestamp_format="%Y%"), ["timestampFormat"]),
    "seconds of the epoch": (ReadStepNdJson(timestamp_format="%s"), ["timestampFormat"]),
    "a letter that Java has not": (ReadStepJson(timestamp_format="yyyy-QQ"), ["timestampFormat"]),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_no_reader_takes_is_told_by_its_key(case: str) -> None:
    step, told = REFUSED[case]
    assert keys(step) == told


def test_a_problem_names_the_part_that_is_not_known() -> None:
    (problem,) = option_problems(ReadStepJson(date_format="yyyy-QQ"))
    assert problem.what == "`dateFormat: yyyy-QQ` is not a known format"
    assert "'QQ'" in problem.why
    assert "dd/MM/yyyy" in problem.fix


@pytest.mark.parametrize("name", [None, "", "utf8", "UTF-8", "latin-1", "cp1252", "utf-16-le"])
def test_an_encoding_is_the_one_of_python(name: str | None) -> None:
    assert codecs.lookup(encoding_of(name)) == codecs.lookup(name or "utf8")


def test_a_dialect_has_the_defaults_of_the_format() -> None:
    assert dialect_of(ReadStepCsv()) == Dialect(",", '"', "\\")
    assert dialect_of(ReadStepCsv(separator="|", quote="", escape="")) == Dialect("|", None, None)
    assert dialect_of(ReadStepCsv(escape='"')) == Dialect(",", '"', None)
    with pytest.raises(ReadOptionError, match="not one character") as caught:
        dialect_of(ReadStepCsv(separator="\\t"))
    assert caught.value.fix == r'write a tab as "\t" in double quotes'


def test_a_format_is_one_of_strptime() -> None:
    assert pattern_of("dateFormat", None) is None
    assert pattern_of("dateFormat", "rfc3339") is None
    assert pattern_of("dateFormat", "dd/MM/yyyy") == "%d/%m/%Y"
    assert pattern_of("dateFormat", "%d.%m.%Y") == "%d.%m.%Y"
