"""What is said of each published derivative: its class, and why it is refused if it is.

The classes and reasons are those of the query as Spark's; most of them are for other engines.
"""

import pytest

from odfbuild.sql.analysis.classes import query_class
from odfbuild.sql.analysis.facts import examine
from odfbuild.sql.text.steps import QueryStep
from tests.sql.published import MANIFESTS, Published, published

SAID = {
    "ca.bccdc.covid19.daily-cases": ("flink", "whole (the dialect of flink)"),
    "ca.ontario.data.covid19.daily-cases": ("flink", "whole (the dialect of flink)"),
    "ca.vancouver.opendata.property.tax-report": ("spark", "linear"),
    "com.defillama.chains.tvl.deriv": ("datafusion", "linear"),
    "com.defillama.pools.deriv": ("datafusion", "linear"),
    "com.defillama.pools.yield.deriv": ("datafusion", "linear"),
    "com.defillama.protocols.deriv": ("datafusion", "linear"),
    "community.youtube.videos.stats": ("datafusion", "linear"),
    "io.codex.tokens.prices": ("datafusion", "linear"),
    "net.rocketpool.reth.mint-burn": ("datafusion", "linear"),
    "org.geonames.altnames": ("spark", "linear"),
    "org.geonames.cities.by-name": ("spark", "linear"),
}

needs_manifests = pytest.mark.skipif(
    not MANIFESTS, reason="the published manifests are not in ../shared"
)


def said(each: Published) -> tuple[str, ...]:
    facts = examine(each.steps, each.inputs)
    kind = query_class(each.steps, dict.fromkeys(each.inputs))
    because = f" ({kind.because})" if kind.because else ""
    codes = dict.fromkeys(finding.reason.value for finding in facts.about(*facts.refused))
    return (each.engine, f"{kind.name}{because}", *codes)


@needs_manifests
def test_every_published_derivative_is_read_as_it_was() -> None:
    assert {each.name: said(each) for each in published()} == SAID


# --- stateful shapes that published pipelines for other engines use --------------------------

SHAPES = {
    "running balance": (
        "select event_time, account, token, sum(amount) over (partition by account, token "
        "order by event_time range between unbounded preceding and current row) as balance "
        "from transfers",
        "keyed (a window function (OVER))",
    ),
    "count of each day": (
        "select tumble_start(event_time, interval '1' day) as event_time, count(*) as total "
        "from transfers group by tumble(event_time, interval '1' day)",
        "keyed (an event-time window)",
    ),
    "days of an interval join": (
        "select window.start as event_time, count(*) as total from (select t.event_time from "
        "transfers t join prices p on t.token = p.token and p.event_time between t.event_time "
        "and t.event_time + interval 2 days) group by window(event_time, '1 day')",
        "whole (an event-time window over JOIN by another key)",
    ),
    "best two of a token": (
        "select event_time, token, amount from (select *, row_number() over (partition by token "
        "order by amount desc, event_time, account) as place from transfers) where place <= 2",
        "keyed (a window function (OVER))",
    ),
    "price in force": (
        "select t.event_time, t.account, p.price from transfers t join prices "
        "for system_time as of t.event_time as p on t.token = p.token",
        "keyed (FOR SYSTEM_TIME AS OF)",
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_of_published_pipelines_has_its_class(name: str) -> None:
    query, expected = SHAPES[name]
    steps = (QueryStep(None, query, (("prices", ("token",)),)),)
    kind = query_class(steps, {"transfers": None, "prices": None})
    assert f"{kind.name} ({kind.because})" == expected
    facts = examine(steps, ["transfers", "prices"])
    assert facts.about(*facts.refused) == ()


def test_a_union_of_several_steps_has_its_class() -> None:
    steps = (
        QueryStep("sent", "select event_time, sender as who, -amount as change from transfers"),
        QueryStep("got", "select event_time, receiver as who, amount as change from transfers"),
        QueryStep("moves", "select * from sent union all select * from got"),
        QueryStep(None, "select max(event_time) as event_time, who, sum(change) as s from moves "
                  "group by who"),
    )  # fmt: skip
    kind = query_class(steps, {"transfers": None})
    assert (kind.name, kind.because) == ("keyed", "GROUP BY")
