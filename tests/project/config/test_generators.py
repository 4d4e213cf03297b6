"""Generators as they are read: what to make of a template, by identities that stay."""

from odfbuild.project.config.generators import GeneratorEntry
from odfbuild.project.config.project_file import Config, parse_config


def config(text: str) -> Config:
    return parse_config(
        f"odfbuild: 1\ngenerate:\n  g:\n    template: t.yaml.j2\n{text}", default_name="x"
    )


def generator(text: str) -> GeneratorEntry:
    (found,) = config(text).generators
    return found


def test_items_are_kept_by_their_keys_in_order() -> None:
    found = generator("    for_each: {b: {x: 1}, a: }\n    name: 'n.{{ each.key }}'\n")
    assert found.for_each == {"b": {"x": 1}, "a": None}
    assert list(found.for_each) == ["b", "a"]
    assert (found.dataset_name, found.matrix, found.source, found.key) == (
        "n.{{ each.key }}",
        None,
        None,
        None,
    )


def test_items_of_a_list_are_known_by_the_column_that_is_named() -> None:
    found = generator("    key: id\n    for_each: [{id: b, x: 1}, {id: 2}, {id: true}]\n")
    assert found.for_each == {"b": {"id": "b", "x": 1}, "2": {"id": 2}, "true": {"id": True}}
    assert found.key is None


def test_a_matrix_keeps_its_axes_and_what_is_excluded() -> None:
    found = generator(
        "    matrix: {x: [1, b], y: [true]}\n    exclude: [{x: b}, {x: 1, y: true}]\n"
    )
    assert found.matrix == {"x": (1, "b"), "y": (True,)}
    assert found.exclude == ({"x": "b"}, {"x": 1, "y": True})


def test_rows_of_a_file_are_known_by_a_column() -> None:
    found = generator("    from: ./data/rows.csv\n    key: id\n")
    assert (found.source, found.key, found.for_each) == ("data/rows.csv", "id", None)
    assert (found.template, found.dataset_name) == ("t.yaml.j2", None)


def test_parts_of_a_generator_have_places() -> None:
    found = generator("    for_each:\n      a: {x: 1}\n")
    assert str(found.span) == "odfbuild.yaml:3:3"
    assert str(found.at("template")) == "odfbuild.yaml:4:15"
    assert str(found.at("for_each", "a", "x")) == "odfbuild.yaml:6:14"
    assert found == generator("    for_each:\n      a: {x: 1}\n")
