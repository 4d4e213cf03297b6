"""A text without a date is no time: no result depends on the day, nor on the clock."""

import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from odfbuild.executors.spark.admission import ClockError, admitted
from odfbuild.executors.spark.engine import SparkEngine
from odfbuild.executors.spark.session import Views
from odfbuild.executors.spark.settings import Size

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
    found = engine._sessions.session(Size.SMALL)
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
""".strip().splitlines()


@pytest.mark.parametrize("text", REFUSED)
def test_texts_without_a_date_are_refused_in_a_query(text: str, session: "SparkSession") -> None:
    with pytest.raises(ClockError) as caught:
        admitted(session, f"select {text} as v from t")
    assert caught.value.fix
    assert "day" in caught.value.why


# Texts in rows, and those that are worked out

RUN = """
cast(s as timestamp)
cast(z as timestamp)
cast(n as timestamp)
cast(collate(s, 'UTF8_LCASE') as timestamp)
cast(concat('no', 'w') as timestamp)
cast(concat('to', 'day') as timestamp_ntz)
cast(concat('to', 'day') as date)
cast(upper(lower('TODAY')) as date)
cast(d as date)
cast(n as timestamp_ntz)
timestamp(s)
s::timestamp
to_timestamp(s)
to_timestamp_ltz(z)
to_timestamp(concat('no', 'w'))
to_date(concat('to', 'day'))
try_to_timestamp(s)
try_to_timestamp(concat('no', 'w'))
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
""".strip().splitlines()
QUERIES = """
select cast(c as date) as v from (select concat('to', 'day') as c) as q
select concat('to', 'day') as c, cast(c as date) as v
with q as (select concat('no', 'w') as c) select cast(c as timestamp) as v from q
select cast(c as date) as v from values (concat('to', 'day')) as q(c)
select timestamp'2020-01-01 12:34:00' as v union all select s from t
select * from t join (select timestamp'2020-01-01 12:34:00' as v) as q on q.v > t.s
select max(to_timestamp(s)) as v from t group by to_timestamp(s)
select v from t lateral view explode(array(cast(s as timestamp))) as v
select v from t, lateral (select to_timestamp(t.s) as v)
select s from t order by cast(s as timestamp), cast(n as timestamp)
select i from t where cast(s as timestamp) > timestamp'2000-01-01 00:00:00'
select * from t |> extend cast(s as timestamp) as v
select * from range(1) where (select to_date(concat('to', 'day')) > date'2000-01-01')
""".strip().splitlines()


@pytest.mark.parametrize("query", [*(f"select {text} as v from t" for text in RUN), *QUERIES])
def test_no_answer_holds_the_day(query: str, session: "SparkSession") -> None:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

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
            is_near = row["a"] is not None and row["a"].startswith(tuple(days()))
            undated += is_near
            expected = row | {"a": None, "b": None} if is_near else row
            assert found == expected, row
        assert undated > 500
        assert sum(row["a"] is not None for row in ours) > 500
    session.catalog.dropTempView("texts")
