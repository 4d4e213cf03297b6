"""Constants over which a step would fail are known before it runs."""

import pytest

from odfbuild.odf.events import (
    DataField,
    DataSchema,
    DataTypeInt64,
    DataTypeMap,
    DataTypeOption,
    DataTypeString,
    DataTypeTimestamp,
)
from odfbuild.sql.analysis.facts import columns_alike
from odfbuild.sql.columns import columns_of
from odfbuild.sql.columns.constants import groups_of
from odfbuild.sql.text.steps import QueryStep

INPUT = DataSchema(
    (
        DataField("t", DataTypeTimestamp()),
        DataField("k", DataTypeOption(DataTypeString())),
        DataField("v", DataTypeOption(DataTypeInt64())),
        DataField("m", DataTypeOption(DataTypeMap(DataTypeInt64(), DataTypeInt64()))),
    )
)


def failures(expression: str) -> list[str]:
    step = QueryStep(None, f"select t, {expression} as x from a where t is not null")
    found = columns_of([step], {"a": INPUT}).wrong_constants
    again = columns_alike([step], {"a": INPUT}).wrong_constants
    assert found == again
    return [each.what for each in found]


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        (r"k rlike '(a'", r"k rlike '(a)'"),
        (r"k rlike '\\'", r"k rlike '\\\\'"),
        ("regexp_replace(k, '[a', '')", "regexp_replace(k, '[[a]b]', '')"),
        ("regexp_replace(k, 'a)', '')", r"regexp_replace(k, 'a\\)', '')"),
        ("split(k, '*')", r"split(k, '\\*')"),
        ("regexp_extract(k, 'a|+b', 0)", "regexp_extract(k, 'a|b+', 0)"),
        ("regexp_extract(k, '[0-9]+')", "regexp_extract(k, '([0-9]+)')"),
        ("regexp_extract(k, '(?:a)(b)', 2)", "regexp_extract(k, '(?<a>a)(b)', 2)"),
        ("date_format(t, 'YYYY-MM')", "date_format(t, 'yyyy-MM')"),
        ("to_timestamp(k, 'yyyy-MM-ddTHH')", "to_timestamp(k, \"yyyy-MM-dd'T'HH\")"),
        ("to_date(k, 'E')", "to_date(t, 'E')"),
        ('date_format(t, "yyyy\'")', "date_format(t, 'E')"),
        ("cast('x' as int)", "try_cast('x' as int)"),
        ("cast('12x' as decimal(5, 1))", "cast('12.5' as decimal(5, 1))"),
        ("double('one')", "double('-Infinity')"),
        ("cast('maybe' as boolean)", "cast(' Yes ' as boolean)"),
        ("cast('2024-02-30' as date)", "cast('2024-02-29' as date)"),
        ("'x'::int", "'7'::int"),
        ("element_at(array(v), 0)", "element_at(m, 0)"),
        ("split_part(k, '-', 0)", "split_part(k, '-', -1)"),
        ("slice(array(v), 0, 1)", "slice(array(v), 1, 0)"),
        ("v / 0", "v / 10"),
        ("v % 0", "v % 0.5"),
        ("v div 0", "0 div v"),
        ("pmod(v, 0)", "pmod(0, v)"),
        ("schema_of_json(k)", """schema_of_json('{"a": 1}')"""),
        ("sequence(1, 5, 0)", "sequence(1, 5, 2)"),
        ("cast('year' as date)", "cast('epoch' as date)"),
        ("timestamp('yyyy')", "timestamp(' Epoch ')"),
        ("cast('1.5' as int)", "cast(' -1 ' as int)"),
        ("v = 'x'", "v = ' 7 '"),
        ("v between '1' and ''", "v between '1' and '+2'"),
        ("v in ('1.5', '1')", "v in ('1', '1.5')"),
        ("cast(v as double) > '1L'", "cast(v as double) > 'NaN'"),
        ("t in ('2024/01/01')", "t in ('2024-01-01')"),
        ("ceil(v * 1.5, 1L)", "ceil(v * 1.5, 1)"),
        ("from_utc_timestamp(t, 'Europe/Berlinn')", "from_utc_timestamp(t, 'Europe/Berlin')"),
        ("to_utc_timestamp(t, 'europe/berlin')", "to_utc_timestamp(t, 'GMT+1')"),
        ("convert_timezone('UTC', 'Mars', t)", "convert_timezone('UTC', '+02:00', t)"),
        ("encode(k, 'latin1')", "encode(k, 'ISO-8859-1')"),
        ("to_number(k, '9,,9')", "to_number(k, 'S$99,999.00')"),
        ("to_char(v, '')", "to_char(t, 'yyyy')"),
        ("to_binary(k, 'hexx')", "to_binary(k, 'HEX')"),
        ("mask(k, 'XX')", "mask(k, 'X', null)"),
        ("next_day(t, 'x')", "next_day(t, 'Mon')"),
        ("format_string('%d', k)", "format_string('%5d%% %1$s', v)"),
        ("format_string('%s %s', k)", "format_string('%s', k, v)"),
        ("from_json(k, 'a INTT')", "from_json(k, 'a DECIMAL, b: ARRAY<TINYINT>')"),
        ("from_json(k, 'a INT b INT')", "from_json(k, 'map<string, int>')"),
        ("slice(array(v), 1, -1)", "slice(array(v), -1, 1)"),
        ("bit_get(v, 64)", "bit_get(v, 63)"),
        ("elt(0, k, k)", "elt(2, k, k)"),
        ("to_date('2024-13-01')", "to_date('2024-12-01')"),
        ("timestampadd(fortnight, 1, t)", "timestampadd(day, 1, t)"),
        ("shiftleft(v, 'a')", "shiftleft(v, '1')"),
        ("datediff('a', t)", "datediff('2024-01-01', t)"),
        ("nullif(cast(t as date), 'a')", "nullif(cast(t as date), '2024-01-01')"),
        ("case when v > 1 then 'a' else t end", "case when v > 1 then 'a' else k end"),
        ("coalesce('n/a', v)", "coalesce(v, '1')"),
        ("to_number(k, '9$')", "to_number(k, '$9')"),
        ("to_number(k, 'S9S')", "to_number(k, 'S9MI')"),
        ("to_char(t, 'YYYY')", "to_char(t, 'yyyy')"),
        ("to_char(k, 'yyyy')", "to_char(k, '99')"),
        ("to_varchar(cast(k as binary), 'utf8')", "to_varchar(cast(k as binary), 'utf-8')"),
        ("try_element_at(array(v), 0)", "try_element_at(m, 0)"),
        ("hll_sketch_agg(v, 22)", "hll_sketch_agg(v, 21)"),
        ("array_join(array(k), ',', 1)", "array_join(array(k), ',', 'x')"),
        ("substring(k from 'a')", "substring(k from '1' for 2)"),
        ("overlay(k placing k from 1 for 'a')", "overlay(k placing 'a' from '1')"),
        ("is_variant_null(k)", "is_variant_null(parse_json(k))"),
        ("variant_get(k, '$.a', 'int')", "variant_get(parse_json(k), '$.a', 'int')"),
        ("t at time zone 'UTC'", "from_utc_timestamp(t, 'UTC')"),
    ],
)
def test_what_fails_is_said_and_nothing_else(wrong: str, right: str) -> None:
    assert len(failures(wrong)) == 1
    assert failures(right) == []
    assert len(failures(f"coalesce(null, {wrong})")) == 1


def test_a_query_does_not_stand_for_one_with_another_constant() -> None:
    assert failures("element_at(array(v), 1)") == []
    assert failures("element_at(array(v), 0)")
    assert failures("k rlike '(a)'") == []
    assert failures("k rlike '(a'")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", 0),
        ("(a)(?:b)(?=c)(?<!d)(?<e>f)", 2),
        (r"\(\[\{", 0),
        ("[]a]", 0),
        ("[^]a](x)", 1),
        ("[a[(]]", 0),
        ("(?i)a+?b*+c{2}", 0),
        (r"\Q(", None),
        ("[a-z&&[^(]]", None),
        ("(?x) a # (", None),
    ],
)
def test_groups_are_counted_where_that_is_certain(text: str, said: int | None) -> None:
    assert groups_of(text) == said
