"""What names mean behind stars, aliases, joins and lists of names."""

import pytest

from odfbuild.odf.events import DataSchema
from odfbuild.odf.schema.ddl import parse_ddl
from odfbuild.sql.analysis.classes import query_class
from odfbuild.sql.analysis.engine_revisions import RevisionFault, affected
from odfbuild.sql.analysis.keys.key_columns import key_columns
from odfbuild.sql.text.steps import QueryStep

A = "t TIMESTAMP NOT NULL, k STRING, n BIGINT, s STRUCT<k: STRING, m: BIGINT>, l ARRAY<STRING>"
INPUTS: dict[str, DataSchema] = {
    "a": parse_ddl(A),
    "b": parse_ddl("t TIMESTAMP NOT NULL, k STRING, w BIGINT"),
}
UNKNOWN = dict.fromkeys(INPUTS)
SUB = "(select * except (k), upper(k) as k from a)"

# What a query works by, and None where no column of the inputs holds it.
KEYS: dict[str, dict[str, tuple[str, ...]] | None] = {
    "select k, count(*) as c from a group by k": {"a": ("k",)},
    "select k, count(*) as c from (select * from a) group by k": {"a": ("k",)},
    "select k, count(*) as c from (select * except (n) from a) group by k": {"a": ("k",)},
    "select k, count(*) as c from (select x.* from a x) group by k": {"a": ("k",)},
    "select j, count(*) as c from (select *, k as j from a) group by j": {"a": ("k",)},
    "select j, count(*) as c from (select k from a) x (j) group by j": {"a": ("k",)},
    "with q (j, i) as (select k, n from a) select j, count(*) as c from q group by j": {
        "a": ("k",)
    },
    "select k, count(*) as c from (select x.* from a x join b on x.k = b.k) group by k": {
        "a": ("k",),
        "b": ("k",),
    },
    "select k, count(distinct w) as c from a join b using (k) group by k": {
        "a": ("k",),
        "b": ("k",),
    },
    "select distinct k, n from a": {"a": ("k", "n")},
    f"select k, count(*) as c from {SUB} group by k": None,
    f"select n, count(*) as c from {SUB} group by n": {"a": ("n",)},
    f"with q as {SUB} select k, count(*) as c from q group by k": None,
    f"select x.k, w from {SUB} x join b on x.k = b.k": None,
    f"select k, w from {SUB} x join b using (k)": None,
    f"select x.k, w from {SUB} x left join b on x.k = b.k": None,
    f"select k, rank() over (partition by k order by n) as r from {SUB}": None,
    "select k, count(*) as c from (select s.* from a) group by k": None,
    "select k, count(*) as c from (select n as k, k as n from a) group by k": {"a": ("n",)},
    "select k, count(*) as c from (select k, n from a) x (n, k) group by k": {"a": ("n",)},
    "select k, count(*) as c from (select * from (select n, k from a)) x (k, n) group by k": {
        "a": ("n",)
    },
    "select k, count(*) as c from (select x.*, upper(y.k) as k from (select n from a) x "
    "join b y on x.n = y.w) group by k": None,
    "select k, count(*) as c from (select n from a) x join (select upper(k) as k, w from b) y "
    "on x.n = y.w group by k": None,
    "select k, count(*) as c from (select * except (k) from a) x "
    "join (select upper(k) as k, w from b) y on x.n = y.w group by k": None,
    "select k, count(*) as c from (select * except (k), j as k from a "
    "lateral view explode(l) e as j) group by k": None,
    "select e.k, count(*) as c from a lateral view explode(l) e as k group by e.k": None,
    "select s.k, count(*) as c from a group by s.k": None,
    "select K, count(*) as c from a group by K": None,
    "select upper(k) as u, count(*) as c from a group by u": None,
}


@pytest.mark.parametrize(("text", "key"), KEYS.items())
def test_a_key_is_a_column_of_the_inputs_or_it_is_not_known(
    text: str, key: dict[str, tuple[str, ...]] | None
) -> None:
    found = key_columns(
        [QueryStep(None, text)], {n: s for n, s in INPUTS.items() if f" {n}" in text}
    )
    assert (None if found is None else dict(found.inputs)) == key


@pytest.mark.parametrize(
    ("text", "of"),
    [
        # a star over columns that are not known passes on what no item and no EXCEPT names
        ("select k, max(n) as m from (select k, n from (select * from a) group by k, n) group by k",
         "keyed"),
        (f"select k, max(n) as m from (select k, n from {SUB} group by k, n) group by k", "whole"),
        (f"select a.k from a join {SUB} x on a.k = x.k group by a.k", "whole"),
        ("select k, count(*) as c from (select * from a) x join (select * from b) y on x.n = y.w "
         "group by k", "whole"),
    ],
)  # fmt: skip
def test_a_name_that_nothing_tells_apart_has_no_side(text: str, of: str) -> None:
    found = query_class([QueryStep(None, text)], UNKNOWN)
    assert found.name == of
    if of == "whole" and "x.n" in text:
        assert found.because == (
            "GROUP BY over JOIN by another key (which column k is cannot be determined)"
        )


@pytest.mark.parametrize("text", KEYS)
def test_what_is_found_without_the_columns_of_the_inputs_is_found_with_them(text: str) -> None:
    without = query_class([QueryStep(None, text)], UNKNOWN)
    known = query_class([QueryStep(None, text)], INPUTS)
    assert without.name in {known.name, "whole"} or {without.name, known.name} <= {"state", "keyed"}


AFFECTED = {
    f"select k, count(*) as c from {SUB} group by k": True,
    f"select n, count(*) as c from {SUB} group by n": False,
    f"select k, n from {SUB}": False,
    f"select j, count(*) as c from (select k as j from {SUB}) group by j": True,
    "select k, count(*) as c from (select s.* from a) group by k": True,
    "select k, count(*) as c from a group by k": False,
    "select k, count(*) as c from (select *, n + 1 as i from a) group by k": False,
    "select upper(k) as k, count(*) as c from a group by k having k = 'P'": True,
    "select s.k as x, k, count(*) as c from a group by s.k, k": True,
}


@pytest.mark.parametrize(("text", "expected"), AFFECTED.items())
def test_queries_that_an_earlier_revision_misread_are_named(text: str, *, expected: bool) -> None:
    steps = [QueryStep(None, text)]
    cause = RevisionFault.COLUMNS if expected else None
    assert affected(steps, INPUTS, "4.3.0+odfbuild.1") is cause
    assert affected(steps, INPUTS, None) is cause
    assert not affected(steps, INPUTS, "4.3.0+odfbuild.2.restate")
