"""Chains that definitions would make."""

from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.schema.ddl import parse_ddl
from odfbuild.planner.diff import diff
from odfbuild.planner.diff.chain_definitions import imagined, imagined_id
from tests.planner.builders import derivative, root

ENGINES = {"spark": "4.3.0+odfbuild.1"}
SRC, OUT = root("src"), derivative("out", "src")


def test_definitions_do_not_differ_from_the_chains_that_they_would_make() -> None:
    states = imagined([SRC, OUT], engines=ENGINES, schemas={})
    for each in (SRC, OUT):
        assert diff(each.snapshot, states[each.alias], imagined_id_of, ENGINES) == ()


def imagined_id_of(ref: DatasetAlias | DatasetId) -> DatasetAlias | DatasetId:
    return imagined_id(ref) if isinstance(ref, DatasetAlias) else ref


def test_ids_follow_names_without_regard_to_case() -> None:
    assert imagined_id(DatasetAlias.parse("Org.A")) == imagined_id(DatasetAlias.parse("org.a"))
    assert imagined_id(DatasetAlias.parse("org.a")) != imagined_id(DatasetAlias.parse("org.b"))


def test_a_known_schema_comes_behind_the_system_columns_with_its_own_event_time() -> None:
    known = parse_ddl("a INT, event_time DATE NOT NULL, b STRUCT<c: STRING>")
    state = imagined([SRC], engines=ENGINES, schemas={SRC.alias: known})[SRC.alias]
    schema = schema_in_force(state)
    assert schema is not None
    names = [field.name for field in schema.fields]
    assert names == ["offset", "op", "system_time", "event_time", "a", "b"]
    assert schema.fields[3].type == known.fields[1].type
