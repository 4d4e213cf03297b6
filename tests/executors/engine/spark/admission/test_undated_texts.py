"""A text without a date is no time: no result depends on the day, nor on the clock."""

import random
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from odfbuild.executors.engine.spark.admission import ClockError, admitted
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.engine.spark.session import Views
from odfbuild.executors.engine.spark.settings import StepSize
from odfbuild.sql.spark_functions import ALLOWED
from tests.support.effort import stride

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.holds("sql-clock")]

_CELLS = {
    "s": "12:34",
    "z": "T1:2-08:00",
    "n": "now",
    "d": "today",
    "j": '{"a":"12:34"}',
    "x": "<r><a>12:34</a></r>",
    "ts": "2020-01-01 12:34",
}


@pytest.fixture(scope="module")
def session(engine: SparkEngine) -> "Iterator[SparkSession]":
    """Yield a session with the table `t`."""
    found = engine._sessions.session(StepSize.SMALL)
    table = pa.table({**{name: [value] for name, value in _CELLS.items()}, "i": [1]})
    found.createDataFrame(table).createOrReplaceTempView("t")
    yield found
    found.catalog.dropTempView("t")


def days() -> list[str]:
    """Return yesterday, today and tomorrow as Spark shows them."""
    now = datetime.now(UTC).date()
    return [str(now + timedelta(days=each)) for each in (-1, 0, 1)]


# Texts of a query

REFUSED = """
cast('12:34' as timestamp)
cast('now' as timestamp)
cast('  NOW  ' as timestamp)
cast('today UTC' as timestamp_ntz)
cast('tomorrow' as date)
timestamp'12:34'
timestamp /* a */ 'T7'
timestamp'\\u006eow'
timestamp'\\u0031:2'
timestamp r'now'
timestamp_ltz"today UTC"
timestamp_ntz'today'
date'yesterday'
to_timestamp('12:34')
try_to_timestamp('1:2')
to_date('today')
'12:34'::timestamp
ts > '12:34'::timestamp
hour('12:34')
timestamp'2020-01-01 00:00:00' < '12:34'
cast(cast(s as time) as timestamp)
cast(time'12:34' as timestamp_ntz)
cast(array(time'12:34') as array<timestamp_ntz>)
cast(array(s) as array<timestamp>)
cast(map('a', s) as map<string, timestamp>)
cast(map(s, 'a') as map<timestamp, string>)
cast(named_struct('a', array(s)) as struct<a: array<timestamp>>)
from_json(j, 'a TIMESTAMP')
from_json(j, 'a ARRAY<STRUCT<b: MAP<STRING, TIMESTAMP>>>')
from_json(j, 'a TIMESTAMP', map('timestampFormat', 'y', 'enableDateTimeParsingFallback', 'true'))
from_json(j, 'a TIMESTAMP', map('ENABLEDateTimeParsingFallback', 'true'))
from_csv(s, 'a TIMESTAMP')
from_xml(x, 'a TIMESTAMP')
variant_get(parse_json(j), '$.a', 'timestamp')
try_variant_get(parse_json(j), '$', 'struct<a: timestamp>')
cast(parse_json(j):a as timestamp)
parse_json(j):a::timestamp
cast(concat('no', 'w') as timestamp)
cast(concat('to', 'day') as timestamp_ntz)
cast(concat('to', 'day') as date)
cast(upper(lower('TODAY')) as date)
to_timestamp(concat('no', 'w'))
to_date(concat('to', 'day'))
try_to_timestamp(concat('no', 'w'))
""".strip().splitlines()


@pytest.mark.parametrize("text", REFUSED)
def test_texts_without_a_date_are_refused_in_a_query(text: str, session: "SparkSession") -> None:
    with pytest.raises(ClockError) as caught:
        admitted(session, f"select {text} as v from t")
    assert caught.value.fix
    assert "date" in caught.value.why


# Texts in rows, and those that are worked out

RUN = """
cast(s as timestamp)
cast(z as timestamp)
cast(n as timestamp)
cast(collate(s, 'UTF8_LCASE') as timestamp)
cast(d as date)
cast(n as timestamp_ntz)
timestamp(s)
s::timestamp
to_timestamp(s)
to_timestamp_ltz(z)
try_to_timestamp(s)
try_cast(s as timestamp)
try_cast(concat(s, '') as timestamp)
to_timestamp(s, 'HH:mm')
to_timestamp('12:34', 'HH:mm')
from_json(j, 'a TIMESTAMP_NTZ')
from_json(j, 'a TIMESTAMP', map('timestampFormat', 'HH:mm'))
from_json(j, 'a TIMESTAMP', map('timestampFormat', 'yyyy'))
from_csv(s, 'a TIMESTAMP', map('timestampFormat', 'yyyy'))
from_xml(x, 'a TIMESTAMP', map('timestampFormat', 'yyyy'))
from_json('{"a":"today"}', 'a DATE')
s < timestamp'2020-01-01 12:34:00'
timestamp'2020-01-01 12:34:00' between s and ts
timestamp'2020-01-01 12:34:00' in (s)
coalesce(timestamp'2020-01-01 12:34:00', s)
if(i = 2, timestamp'2020-01-01 12:34:00', s)
array(timestamp'2020-01-01 12:34:00', s)
date_trunc('day', s)
date_format(s, 'yyyy-MM-dd')
months_between(s, '2020-01-01')
from_utc_timestamp(s, 'UTC')
timestampadd(HOUR, 1, s)
s + interval 1 hour
s - timestamp'2020-01-01 12:34:00'
window(s, '1 hour')
session_window(s, '1 hour')
extract(year from s::timestamp)
(select max(cast(s as timestamp)) from t)
exists (select 1 from t as u where cast(u.s as timestamp) > '2000-01-01')
transform(array(s), each -> cast(each as timestamp))
max(cast(s as timestamp)) over (partition by i)
cast(cast(concat('2020-01-01', ' 12:34') as timestamp) as string)
to_date(concat('2020', '-01-01'))
""".strip().splitlines()
QUERIES = """
select cast(c as date) as v from (select concat('to', 'day') as c) as q
select concat('to', 'day') as c, cast(c as date) as v
with q as (select concat('no', 'w') as c) select cast(c as timestamp) as v from q
select cast(c as date) as v from values (concat('to', 'day')) as q(c)
select * from values (cast('2024-01-01' as date), timestamp'2024-01-01 00:00:00'), (null, null)
select * from values (to_timestamp(concat('2020-01-01', ' 12:34')), array('12:34'), -(1 + 1))
select * from (select s, i from t) pivot (sum(i) for s in ('12:34' as a, 'now' as b))
select * from (select s, n, i from t) pivot (sum(i) for (s, n) in (('12:34', 'now') as a))
select * from (select ts::timestamp as c from t) pivot (count(*) for c in ('2020-01-01 12:34'))
select '😀' as y, TIMESTAMP'2024-01-01 00:00:00' as v
select * from range(abs(-1), length(concat('a', 'b')))
select date_part(lower('YEAR'), ts::timestamp) as v from t
select from_json(j, schema_of_json(concat('{"a":', '1}'))) as v from t
select timestamp'2020-01-01 12:34:00' as v union all select s from t
select * from t join (select timestamp'2020-01-01 12:34:00' as v) as q on q.v > t.s
select max(to_timestamp(s)) as v from t group by to_timestamp(s)
select v from t lateral view explode(array(cast(s as timestamp))) as v
select v from t, lateral (select to_timestamp(t.s) as v)
select s from t order by cast(s as timestamp), cast(n as timestamp)
select i from t where cast(s as timestamp) > timestamp'2000-01-01 00:00:00'
select * from t |> extend cast(s as timestamp) as v
select * from range(1) where (select max(cast(s as timestamp)) > date'2000-01-01' from t)
""".strip().splitlines()


@pytest.mark.parametrize("query", [*(f"select {text} as v from t" for text in RUN), *QUERIES])
def test_no_answer_holds_the_day(query: str, session: "SparkSession") -> None:
    try:
        shown = admitted(session, query)._jdf.showString(5, 0, False)
    except (PySparkException, Py4JJavaError) as error:
        shown = str(error)
        assert "CAST_INVALID_INPUT" in shown, shown
    assert not [day for day in days() if day in shown]


def test_a_view_of_an_earlier_step_is_guarded_too(session: "SparkSession") -> None:
    with Views(session) as views:
        views.add("step", admitted(session, "select try_cast(s as timestamp) as v, z from t"))
        rows = admitted(session, "select v, try_cast(z as timestamp) as w from step").toArrow()
    assert rows.to_pylist() == [{"v": None, "w": None}]


def test_what_is_not_read_by_the_clock_is_not_touched(session: "SparkSession") -> None:
    rows = admitted(
        session,
        "select '12:34' as a, 'now' as b, time'12:34' as c, timestamp'epoch' as d, "
        "cast('12:34' as time) as e, s as f, cast(ts as timestamp) as g, "
        "date'2020-01-01' as h, cast(1 as timestamp) as i from t",
    ).toArrow()
    assert rows.column("g").to_pylist() == [datetime(2020, 1, 1, 12, 34, tzinfo=UTC)]
    assert rows.column("f").to_pylist() == ["12:34"]
    assert rows.column("h").to_pylist() == [date(2020, 1, 1)]


# Constants, which Spark works out as it analyses

MOMENTS = """
cast('12:34' as timestamp)
cast(concat('12', ':34') as timestamp)
cast('12' || ':34' as timestamp)
try_cast(chr(49) || chr(58) as timestamp)
cast(cast(X'31323a3334' as string) as timestamp)
cast(collate(concat('12', ':34'), 'UTF8_LCASE') as timestamp)
cast(array(concat('12', ':34'))[0] as timestamp)
array(cast(concat('12', ':34') as timestamp))[0]
array(timestamp'2020-01-01 00:00:00', concat('12', ':34'))[1]
coalesce(concat('12', ':34'), timestamp'2020-01-01 00:00:00')
cast(array(concat('12', ':34')) as array<timestamp>)[0]
to_timestamp(concat('12', ':34'))
try_to_timestamp(concat('T', '12'))
date_trunc('hour', concat('12', ':34'))
concat('12', ':34') + interval 1 hour
timestamp(concat('12', ':34'))
concat('12', ':34')::timestamp
cast(make_time(12, 34, 0) as timestamp)
cast(parse_json('"12:34"') as timestamp)
from_json(concat('{"a": ', '"12:34"}'), 'a TIMESTAMP').a
make_timestamp(cast(concat('to', 'day') as date), time'12:34')
cast(concat('12', ':3', substr(typeof(1), 1, 0), '4') as timestamp)
timestamp'12:34'
date'today'
""".strip().splitlines()
EACH = stride(4)  # the queries share the moments between them
ANALYSED = """
select * from values ({time})
select * from values (1, array({time})), (2, array())
select * from values (named_struct('a', {time}))
select (select max(col1) from values ({time})) as v from t
with q as (select * from values ({time})) select * from q
select * from t, lateral (select * from values ({time}) as q(v))
select * from range(unix_seconds({time}), unix_seconds({time}) + 2)
select * from stack(if({late}, 1, 2), 1, 2)
select v from t lateral view stack(if({late}, 1, 2), 1, 2) as v
select * from (select i from t) pivot (sum(i) for i in (if({late}, 1, 2) as a))
from t |> select i |> pivot (sum(i) for i in (if({late}, 1, 2) as a))
select date_part(if({late}, 'YEAR', 'DAY'), ts::timestamp) as v from t
select date_part(if({late}, 'YEAR', typeof(i)), ts::timestamp) as v from t
select from_json(j, schema_of_json(if({late}, '{{"a":1}}', '{{"a":"x"}}'))) as v from t
select from_csv(s, schema_of_csv(if({late}, '1', 'a'))) as v from t
select from_json(j, 'a INT', map('mode', if({late}, 'FAILFAST', 'PERMISSIVE'))) as v from t
select named_struct(if({late}, 'a', 'b'), 1) as v from t
select date_add(ts::date, if({late}, '1', '2')) as v from t
select round(1.55, if({late}, 1, 2)) as v from t
select to_binary(s, if({late}, 'utf-8', 'hex')) as v from t
select collate(s, if({late}, 'UTF8_LCASE', 'UNICODE')) as v from t
select to_char(i, if({late}, '9', '99')) as v from t
select variant_get(parse_json(j), if({late}, '$.a', '$.b'), 'STRING') as v from t
select percentile(i, if({late}, 0.5, 0.1)) as v from t
select ntile(if({late}, 1, 2)) over (order by i) as v from t
select i from t limit if({late}, 1, 2)
select i from t limit 1 offset if({late}, 0, 1)
select i from t tablesample (if({late}, 1, 2) rows)
""".strip().splitlines()


def at(query: str, time: str) -> str:
    return query.format(time=time, late=f"{time} > timestamp'2020-01-01 00:00:00'")


@pytest.mark.parametrize("query", ANALYSED)
def test_what_spark_works_out_as_it_analyses_is_judged_before(
    query: str, session: "SparkSession"
) -> None:
    for time in ("timestamp'2020-01-01 00:00:00'", "cast(concat('2020', '-01-01') as timestamp)"):
        with suppress(PySparkException):  # as some places are for literals alone
            admitted(session, at(query, time))
    for time in MOMENTS[ANALYSED.index(query) % EACH :: EACH]:
        with pytest.raises(ClockError) as caught:
            admitted(session, at(query, time))
        assert caught.value.fix


@pytest.mark.parametrize(
    "query",
    [
        "select * from values (timestamp'2020-01-01 00:00:00'), ('12:34')",
        "select * from values (array(timestamp'2020-01-01 00:00:00')), (array('12:34'))",
        "select * from values (timestamp'2020-01-01 00:00:00'), (concat('12', ':34'))",
        "select * from {times} pivot (sum(i) for c in ('12:34' as a))",
        "select * from {times} pivot (sum(i) for c in ('2020-01-01', 'T12:34'))",
        "select * from {times} pivot (sum(i) for c in ('12' || ':34' as a))",
        "select * from {times} pivot (sum(i) for c in (concat('12', ':34') as a))",
        "select * from {times} pivot (sum(i) for c in (time'12:34' as a))",
        "select * from {times} pivot (sum(i) for (c, s) in (('12:34', 'x') as a))",
        "select * from {times} pivot (sum(i), max(array(i)) for c in ('12:34' as a))",
        "from {times} |> pivot (max(array(i)) for c in ('12:34' as a))",
        "select date_part(if(cast(concat('12', substr(typeof(i), 1, 0), ':34') as timestamp) > "
        "timestamp'2020-01-01 00:00:00', 'YEAR', 'DAY'), c) from {times}",
        "select /* TIMESTAMP'2024-01-01' */ '" + "\U0001f600" * 21 + "' y, TIMESTAMP'12:34' x",
    ],
)
def test_what_becomes_a_time_beside_others_is_judged_too(
    query: str, session: "SparkSession"
) -> None:
    with pytest.raises(ClockError):
        admitted(session, query.format(times="(select ts::timestamp as c, s, i from t)"))


@pytest.mark.slow
def test_no_call_of_a_column_is_constant_but_that_of_its_type(session: "SparkSession") -> None:
    """Spark works out constants as it analyses; what else is one, `height()` must know."""
    found = set()
    for name in sorted(each for each in ALLOWED if each.isidentifier()):
        for given in ("s", "array(s)", "s, i"):
            with suppress(PySparkException, Py4JError):  # not a call, or several rows
                frame = session.sql(f"select {name}({given}) as v from t")
                if frame._jdf.queryExecution().analyzed().expressions().apply(0).child().foldable():
                    found.add(name)
    assert found == {"typeof"}


# A law over texts of the grammar of times

_SPACE = ["", "", "", " ", "\t", "\n ", "\x00", "\x7f", "\u00a0", "  "]
_ZONES = ["", "", "Z", " UTC", "+01:00", "-8", "-08:30", " Europe/Paris", "GMT+3", "-03-00", "X"]
_ZONES += [" America/Port-au-Prince", "Etc/GMT-5", " PST", "+1:2:3"]
_WORDS = ["now", "Today", "TOMORROW", "yesterday", "epoch", "T", "", "-", ":", "null", "12", "2020"]


def time_text(drawn: random.Random) -> str:
    """Return a text that is a time, or nearly one."""
    hour = ":".join(
        str(drawn.randint(0, 24)).zfill(drawn.choice([0, 2, 2, 2, 2, 2, 2, 3]))
        for _ in range(drawn.choice([1, 2, 2, 3, 3, 4]))
    )
    if drawn.random() < 0.1:
        hour += "." + str(drawn.randint(0, 10**9))
    year = str(drawn.randint(0, 2015)).zfill(drawn.choice([1, 3, 4, 4, 4, 4, 5, 6]))
    day = "-".join([year, *(str(drawn.randint(1, 12)).zfill(drawn.choice([0, 2])) for _ in "md")])
    middle = drawn.choice(["T", " ", "T", "", "t"])
    zone = drawn.choice(_ZONES)
    body = drawn.choice(
        [
            hour + zone,
            f"T{hour}{zone}",
            f"{drawn.choice(['', '+', '-'])}{day}{middle}{hour}{zone}",
            f"{day}{middle}{hour}{zone}",
            day,
            drawn.choice(_WORDS) + zone,
        ]
    )
    if drawn.random() < 0.1 and body:
        at = drawn.randrange(len(body))
        body = body[:at] + drawn.choice("T-: +.0Zé") + body[at + 1 :]
    return drawn.choice(_SPACE) + body + drawn.choice(_SPACE)


def test_a_text_is_a_time_only_where_it_has_a_date(session: "SparkSession") -> None:
    """Of plain Spark's answers those near today are missing, and no others."""
    drawn = random.Random(27)
    texts = [time_text(drawn) for _ in range(20_000)]
    session.createDataFrame(pa.table({"text": texts})).createOrReplaceTempView("texts")
    query = (
        "select text, cast(try_cast({0} as timestamp) as string) as a, "
        "cast(try_to_timestamp({0}) as string) as b from texts"
    )
    for column in ("text", "concat('', text)"):
        plain = session.sql(query.format(column)).toArrow().to_pylist()
        ours = admitted(session, query.format(column)).toArrow().to_pylist()
        undated = 0
        for row, found in zip(plain, ours, strict=True):
            is_narrowed = row["a"] is not None and row["a"].startswith(tuple(days()))
            undated += is_narrowed
            expected = row | {"a": None, "b": None} if is_narrowed else row
            assert found == expected, row
        assert undated > 500
        assert sum(row["a"] is not None for row in ours) > 500
    session.catalog.dropTempView("texts")
