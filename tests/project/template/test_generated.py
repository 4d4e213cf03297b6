"""Generators: many datasets of one template, each known by its key."""

from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.errors import ProjectErrors
from odfbuild.project.load import Project, load_project
from odfbuild.project.template import generator_items
from tests.project.templated import NAMED, SETTINGS, UNNAMED, described, lay_out

Facts = dict[str, tuple[str | None, str | None]]


def made(project: Project) -> Facts:
    """Return the instance and the description of each dataset, by its name."""
    return {str(each.alias): (each.instance, described(each)) for each in project.declared}


def generated(root: Path, generator: Mapping[str, object], text: str, **files: str) -> Project:
    settings = {"odfbuild": 1, "generate": {"gen": {"template": "t.yaml.j2", **generator}}}
    template = UNNAMED if "name" in generator else NAMED.replace("{name}", "x.{{ each.key }}")
    lay_out(root, {
        "odfbuild.yaml": yaml.safe_dump(settings, sort_keys=False),
        "t.yaml.j2": template.replace("{text}", text),
        **files,
    })  # fmt: skip
    return load_project(root)


def test_each_entry_of_a_mapping_makes_a_dataset(tmp_path: Path) -> None:
    items = {"eur": {"pair": "EUR/USD"}, "gbp": {"pair": "GBP/USD"}}
    generator = {"for_each": items, "name": "rates.{{ each.key }}"}
    assert made(generated(tmp_path, generator, "{{ each.value.pair }}")) == {
        "rates.eur": ("gen=eur", "EUR/USD"),
        "rates.gbp": ("gen=gbp", "GBP/USD"),
    }


def test_the_items_of_a_list_are_known_by_a_key(tmp_path: Path) -> None:
    generator = {"for_each": [{"id": "b", "n": 1}, {"id": 7, "n": 2}], "key": "id"}
    assert made(generated(tmp_path, generator, "'{{ each.value.n }}'")) == {
        "x.b": ("gen=b", "1"),
        "x.7": ("gen=7", "2"),
    }


def test_a_matrix_makes_a_dataset_of_each_combination(tmp_path: Path) -> None:
    generator = {
        "matrix": {"country": ["ca", "de"], "kind": ["temp", "rain"], "n": [1]},
        "exclude": [{"country": "de", "kind": "rain"}],
        "name": "{{ kind }}.{{ country }}",
    }
    assert made(generated(tmp_path, generator, "'{{ each.value.kind }} {{ n }}'")) == {
        "temp.ca": ("country=ca, kind=temp, n=1", "temp 1"),
        "rain.ca": ("country=ca, kind=rain, n=1", "rain 1"),
        "temp.de": ("country=de, kind=temp, n=1", "temp 1"),
    }


def test_each_row_of_a_csv_file_makes_a_dataset(tmp_path: Path) -> None:
    generator = {"from": "data/s.csv", "key": "id", "name": "s.{{ row.id }}"}
    rows = 'id,city,items\r\n042,"Paris, TX",a\r\n\r\n7,"two\nlines",b\r\n'
    project = generated(
        tmp_path, generator, "{{ (row.city ~ row.items ~ each.value.id) | tojson }}",
        **{"data/s.csv": rows},
    )  # fmt: skip
    assert made(project) == {
        "s.042": ("gen=042", "Paris, TXa042"),
        "s.7": ("gen=7", "two\nlinesb7"),
    }


def test_each_row_of_a_yaml_file_makes_a_dataset(tmp_path: Path) -> None:
    generator = {"from": "s.yaml", "key": "id"}
    rows = "- {id: 42, tags: [a, b]}\n- {id: true, tags: []}\n"
    text = "'{{ row.tags | join(\"+\") }}'"
    assert made(generated(tmp_path, generator, text, **{"s.yaml": rows})) == {
        "x.42": ("gen=42", "a+b"),
        "x.true": ("gen=true", ""),
    }


def test_no_rows_make_no_datasets(tmp_path: Path) -> None:
    generator = {"from": "s.csv", "key": "id"}
    assert made(generated(tmp_path, generator, "x", **{"s.csv": "id,n\n"})) == {}


def test_without_a_name_the_template_may_declare_several(tmp_path: Path) -> None:
    generator = {"for_each": {"a": 1, "b": 2}}
    more = "x\n---\n" + NAMED.replace("{name}", "y.{{ each.key }}").replace("{text}", "z")
    project = generated(tmp_path, generator, more)
    assert sorted(made(project)) == ["x.a", "x.b", "y.a", "y.b"]


def test_the_same_name_in_template_and_generator_is_no_error(tmp_path: Path) -> None:
    generator = {"for_each": {"a": 1}, "name": "x.{{ each.key }}"}
    project = generated(tmp_path, generator, "x\n  name: 'x.{{ each.key }}'")
    assert list(made(project)) == ["x.a"]


def test_a_template_that_a_generator_names_is_not_rendered_by_itself(tmp_path: Path) -> None:
    settings = SETTINGS + "generate:\n  g: {template: datasets/deep/t.yaml.j2, for_each: {a: 1}}\n"
    template = NAMED.format(name="x.{{ each.key }}", text="x")
    lay_out(tmp_path, {"odfbuild.yaml": settings, "datasets/deep/t.yaml.j2": template})
    assert list(made(load_project(tmp_path))) == ["x.a"]


def test_two_generators_may_share_a_template(tmp_path: Path) -> None:
    entry = "  {0}: {{template: t.yaml.j2, for_each: {{a: {0}}}, name: '{0}.{{{{ each.key }}}}'}}\n"
    settings = SETTINGS + "generate:\n" + "".join(entry.format(x) for x in ("g", "h"))
    template = UNNAMED.replace("{text}", "{{ each.value }}")
    lay_out(tmp_path, {"odfbuild.yaml": settings, "t.yaml.j2": template})
    assert made(load_project(tmp_path)) == {"g.a": ("g=a", "g"), "h.a": ("h=a", "h")}


def test_places_in_generated_datasets_are_places_in_the_template(tmp_path: Path) -> None:
    generator = {"for_each": {"a": 1}, "name": "x.{{ each.key }}"}
    (declared,) = generated(tmp_path, generator, '"text of {{ each.key }}"').declared
    span = declared.span(("metadata", 0, "description"))
    assert (str(span), span.length, span.instance) == ("t.yaml.j2:7:20", 24, "gen=a")
    assert span.excerpt == '      description: "text of {{ each.key }}"'
    assert (declared.file, declared.instance, declared.document) == ("t.yaml.j2", "gen=a", 0)
    inside = declared.span_inside(("metadata", 0, "description"), "text of a", 5, 2)
    assert (str(inside), inside.length) == ("t.yaml.j2:7:26", 2)
    inside = declared.span_inside(("metadata", 0, "description"), "text of a", 8)
    assert (str(inside), inside.length) == ("t.yaml.j2:7:29", 14)


def test_findings_of_many_instances_are_told_once(tmp_path: Path) -> None:
    generator = {"for_each": {f"k{n}": n for n in range(30)}, "name": "x.{{ each.key }}"}
    with pytest.raises(ProjectErrors) as caught:
        generated(tmp_path, generator, "{{ each.valu }}")
    (found,) = caught.value.found
    assert found.span is not None
    assert found.span.instance == "gen=k0"
    assert found.why.endswith("; the same for gen=k1, gen=k2, gen=k3 and 26 more")


def test_different_findings_at_one_place_are_counted(tmp_path: Path) -> None:
    generator = {"for_each": {f"k{n}": n for n in range(30)}, "name": "x_{{ each.key }}"}
    with pytest.raises(ProjectErrors) as caught:
        generated(tmp_path, generator, "x")
    assert len(caught.value.found) == 10
    assert caught.value.found[9].why.endswith("; 20 more are wrong here")


def test_more_items_than_anybody_means_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generator_items, "MAX_ITEMS", 3)
    for generator in (
        {"for_each": dict.fromkeys("abcd", 1)},
        {"matrix": {"m": [1, 2], "n": [1, 2]}},
        {"from": "s.csv", "key": "id"},
    ):
        with pytest.raises(ProjectErrors, match="has 4 items"):
            generated(tmp_path, generator, "x", **{"s.csv": "id\na\nb\nc\nd\n"})


KEYS = st.from_regex(r"[a-z][a-z0-9]{0,3}", fullmatch=True)
ITEMS = st.dictionaries(KEYS, st.integers(0, 9), min_size=1, max_size=6)


@given(ITEMS, ITEMS, st.randoms(use_true_random=False))
def test_an_item_more_or_less_changes_no_other(
    tmp_path_factory: pytest.TempPathFactory,
    items: dict[str, int],
    more: dict[str, int],
    random: object,
) -> None:
    root = tmp_path_factory.mktemp("project")
    everything = list({**more, **items}.items())
    random.shuffle(everything)  # type: ignore[attr-defined]
    few, many = (
        {
            each.alias: each
            for each in generated(
                root, {"for_each": given, "name": "x.{{ each.key }}"}, "'{{ each.value }}'"
            ).declared
        }
        for given in (items, dict(everything))
    )
    assert {alias: many[alias] for alias in few} == few


@given(ITEMS, ITEMS)
def test_a_row_more_or_less_changes_no_other(
    tmp_path_factory: pytest.TempPathFactory, items: dict[str, int], more: dict[str, int]
) -> None:
    root = tmp_path_factory.mktemp("project")
    generator = {"from": "s.csv", "key": "id", "name": "x.{{ each.key }}"}
    few, many = (
        {
            each.alias: each
            for each in generated(
                root,
                generator,
                "'{{ row.n }}'",
                **{"s.csv": "id,n\n" + "".join(f"{key},{n}\n" for key, n in rows.items())},
            ).declared
        }
        for rows in (items, {**more, **items})
    )
    assert {alias: many[alias] for alias in few} == few


AXES = st.dictionaries(
    KEYS.filter(lambda key: key not in ("is", "in", "or", "and", "not", "for", "if", "var", "env")),
    st.lists(KEYS, min_size=1, max_size=3, unique=True), min_size=1, max_size=3,
)  # fmt: skip


@given(AXES, st.data())
def test_a_value_more_on_an_axis_changes_no_other(
    tmp_path_factory: pytest.TempPathFactory, axes: dict[str, list[str]], data: st.DataObject
) -> None:
    root = tmp_path_factory.mktemp("project")
    name = ".".join(f"{{{{ {axis} }}}}" for axis in axes)
    axis = data.draw(st.sampled_from(sorted(axes)))
    more = {**axes, axis: ["zzzzz", *axes[axis]]}
    few, many = (
        {
            each.alias: each
            for each in generated(root, {"matrix": matrix, "name": name}, "{{ each.key }}").declared
        }
        for matrix in (axes, more)
    )
    assert {alias: many[alias] for alias in few} == few
    assert len(many) > len(few)
