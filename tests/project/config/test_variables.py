"""Variables: what may be given, what wins, and what is said of values that are none."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.cli.render.diagnostics import render_diagnostics
from odfbuild.errors import ProjectErrors
from odfbuild.project.config.project_file import Config, parse_config
from odfbuild.project.config.variables import VariableType, printed, resolve_variables
from odfbuild.project.yaml import Value

EACH_TYPE = """\
odfbuild: 1
vars:
  string: {type: string, default: x}
  int: {type: int, default: 0}
  number: {type: number, default: 0}
  bool: {type: bool, default: false}
  date: {type: date, default: 2024-01-01}
  list: {type: list, default: []}
  map: {type: map, default: {}}
"""
REGION = "odfbuild: 1\nvars: {region: {type: string, enum: [eu, us], default: eu}}\n"


def config(text: str) -> Config:
    return parse_config(text, default_name="x")


def problems(text: str, *given: str, files: tuple[Path, ...] = ()) -> str:
    with pytest.raises(ProjectErrors) as caught:
        resolve_variables(config(text).variables, given, files)
    assert {each.code for each in caught.value.found} == {"variable"}
    return render_diagnostics(caught.value.found)


def written(folder: Path, text: str, name: str = "vars.yaml") -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


texts = st.text(st.characters(codec="utf-8"))
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=8
)
OF_TYPE: dict[str, st.SearchStrategy[Value]] = {
    "string": texts,
    "int": st.integers(),
    "number": st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    "bool": st.booleans(),
    "date": st.dates().map(str),
    "list": st.lists(values),
    "map": st.dictionaries(texts, values),
}


@given(st.fixed_dictionaries(OF_TYPE))
def test_printed_values_are_read_back(wanted: dict[str, Value]) -> None:
    given = [f"{name}={printed(value)}" for name, value in wanted.items()]
    found = resolve_variables(config(EACH_TYPE).variables, given, ())
    assert found == wanted
    assert {name: type(each) for name, each in found.items()} == {
        name: type(each) for name, each in wanted.items()
    }


@given(st.sampled_from(list(VariableType)), values)
def test_a_default_is_taken_if_and_only_if_it_fits(kind: VariableType, value: Value) -> None:
    shown = printed([value])[1:-1]
    text = f"odfbuild: 1\nvars:\n  v:\n    type: {kind.value}\n    default: {shown}\n"
    if kind.fits(value):
        assert resolve_variables(config(text).variables, (), ()) == {"v": value}
    else:
        with pytest.raises(ProjectErrors, match="not a value for 'v'"):
            config(text)


def test_values_come_in_the_order_in_which_they_are_declared() -> None:
    found = resolve_variables(config(EACH_TYPE).variables, ["map={a: 1}", "int=7"], ())
    assert list(found) == ["string", "int", "number", "bool", "date", "list", "map"]
    assert (found["int"], found["map"], found["date"]) == (7, {"a": 1}, "2024-01-01")


def test_what_comes_later_wins_and_single_values_come_last(tmp_path: Path) -> None:
    files = [
        written(tmp_path, "string: a\nint: 1\nnumber: 1\n", "a.yaml"),
        written(tmp_path, "int: 2\nnumber: 2\n", "b.yaml"),
    ]
    found = resolve_variables(config(EACH_TYPE).variables, ["number=3", "number=4"], files)
    assert (found["string"], found["int"], found["number"]) == ("a", 2, 4)


def test_a_text_is_taken_as_it_is() -> None:
    found = resolve_variables(
        config(EACH_TYPE).variables, ["string= 12: a=b ", "date=2024-02-29"], ()
    )
    assert (found["string"], found["date"]) == (" 12: a=b ", "2024-02-29")


def test_an_empty_file_of_values_is_no_error(tmp_path: Path) -> None:
    assert resolve_variables(config(REGION).variables, (), [written(tmp_path, "# none\n")]) == {
        "region": "eu"
    }


def test_a_value_outside_of_the_enumeration_is_refused() -> None:
    assert problems(REGION, "region=usa") == (
        "error[variable]: --var region: 'usa' is not a value for 'region'\n"
        "  why: it is one of: eu, us\n"
        "  fix: did you mean 'us'?"
    )


def test_a_variable_without_a_value_is_shown_where_it_is_declared() -> None:
    text = "odfbuild: 1\nvars:\n  region: {type: string}\n"
    assert problems(text) == (
        "odfbuild.yaml:3:3: error[variable]: the variable 'region' has no value\n"
        "  3 |   region: {type: string}\n"
        "    |   ^^^^^^\n"
        "  why: it is declared without a default\n"
        "  fix: add: --var region=VALUE; or a default"
    )


def test_values_in_a_file_are_refused_at_their_place(tmp_path: Path) -> None:
    path = written(tmp_path, "region: asia\nreigon: eu\n")
    assert problems(REGION, files=(path,)) == (
        f"{path}:1:9: error[variable]: 'asia' is not a value for 'region'\n"
        "  1 | region: asia\n"
        "    |         ^^^^\n"
        "  why: it is one of: eu, us\n"
        "  fix: use one of: eu, us\n"
        "\n"
        f"{path}:2:1: error[variable]: there is no variable 'reigon'\n"
        "  2 | reigon: eu\n"
        "    | ^^^^^^\n"
        "  why: a value that nothing uses is probably a mistake\n"
        "  fix: did you mean 'region'?\n"
        "\n"
        "2 errors"
    )


def test_all_problems_with_values_are_told_together(tmp_path: Path) -> None:
    text = EACH_TYPE + "  needed: {type: int}\n"
    missing = tmp_path / "none.yaml"
    given = ("int=1.5", "bool", "list=[a", "date=2023-02-29", "strng=x", "map=1", "number=")
    with pytest.raises(ProjectErrors) as caught:
        resolve_variables(config(text).variables, given, [missing])
    assert [each.what for each in caught.value.found] == [
        f"the file of variables '{missing}' cannot be read: No such file or directory",
        "--var int: 1.5 is not a value for 'int'",
        "--var bool: there is no '='",
        "--var list: a list in brackets is not closed",
        "--var date: '2023-02-29' is not a value for 'date'",
        "--var strng: there is no variable 'strng'",
        "--var map: 1 is not a value for 'map'",
        "--var number: null is not a value for 'number'",
        "the variable 'needed' has no value",
    ]


def test_a_wrong_value_is_not_called_missing_too() -> None:
    text = "odfbuild: 1\nvars: {n: {type: int}}\n"
    assert problems(text, "n=x").count("error[") == 1


def test_a_file_of_values_that_is_no_mapping_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "[eu]\n")
    with pytest.raises(ProjectErrors, match=r"vars\.yaml must be a mapping"):
        resolve_variables(config(REGION).variables, (), [path])


def test_a_project_without_variables_says_where_to_declare_one() -> None:
    assert "declare it in odfbuild.yaml, below 'vars'" in problems("odfbuild: 1\n", "a=1")
