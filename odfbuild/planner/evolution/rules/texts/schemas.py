"""ODF2xx: rules on how the columns of a dataset may change, nested ones alike."""

from odfbuild.planner.evolution.rules.rule import Rule
from odfbuild.planner.plan.changes import ChangeClass
from odfbuild.planner.plan.policy import Severity

_BESIDE = "put the new form beside it, under another column name"
_PUBLISH = "publish the new form as {dataset}.v2"
_ANEW = "begin a new chain: odfbuild rebuild {dataset} --full --downstream"

SCHEMAS = (
    Rule(
        code="ODF201",
        name="column-removed",
        title="a column is no longer produced",
        change=ChangeClass.BREAKING,
        severity=Severity.ERROR,
        explanation="Queries that name it fail, or read null from then on: a chain keeps an "
        "optional column for good, and rows to come have no value there. A required column "
        "cannot be given up on the same chain.",
        before="query: select id, fee from trades",
        after="query: select id from trades",
        ways=("keep the column {column}", _PUBLISH),
    ),
    Rule(
        code="ODF202",
        name="column-renamed",
        title="a column has another name",
        change=ChangeClass.BREAKING,
        severity=Severity.ERROR,
        explanation="One column goes while another of the same type, made of the same things, "
        "comes. Queries name columns, so to them the old one is removed.",
        before="query: select id, fee from trades",
        after="query: select id, fee as commission from trades",
        ways=("produce both names: {column} and {other}", _PUBLISH),
    ),
    Rule(
        code="ODF203",
        name="column-retyped",
        title="a column has another type",
        change=ChangeClass.BREAKING,
        severity=Severity.ERROR,
        explanation="Rows so far keep the old type, and readers were built for it. A chain's "
        "columns never change their type, so this can only be done under another name.",
        before="schema: [id BIGINT, price STRING]",
        after="schema: [id BIGINT, price DOUBLE]",
        ways=("keep the type of {column}: cast it in the query", _BESIDE, _PUBLISH, _ANEW),
    ),
    Rule(
        code="ODF204",
        name="column-widened",
        title="a column has a wider type, which old readers cope with",
        change=ChangeClass.ADDITIVE,
        severity=Severity.WARN,
        explanation="Every old value is one of the new type and means the same there: a longer "
        "integer, a decimal with more digits, a finer unit. The columns of a chain keep their "
        "type all the same, so it takes a new dataset.",
        before="schema: [id INT]",
        after="schema: [id BIGINT]",
        ways=("keep the type of {column}: cast it in the query", _BESIDE, _PUBLISH),
    ),
    Rule(
        code="ODF205",
        name="column-made-required",
        title="a column that could be null no longer can",
        change=ChangeClass.BREAKING,
        severity=Severity.ERROR,
        explanation="Rows so far may hold null there, and history is permanent: the promise would "
        "be untrue of it. Rows to come without a value would be refused.",
        before="schema: [id BIGINT]",
        after="schema: [id BIGINT NOT NULL]",
        ways=("leave {column} optional", _PUBLISH),
    ),
    Rule(
        code="ODF206",
        name="column-made-optional",
        title="a column that was never null now can be",
        change=ChangeClass.BREAKING,
        severity=Severity.ERROR,
        explanation="Readers that were promised a value may meet null. The chain keeps the column "
        "required.",
        before="schema: [id BIGINT NOT NULL]",
        after="schema: [id BIGINT]",
        ways=("leave {column} required", "fill it: coalesce({column}, ...)", _PUBLISH),
    ),
    Rule(
        code="ODF207",
        name="columns-reordered",
        title="the columns stand in another order",
        change=ChangeClass.RESTATING,
        severity=Severity.WARN,
        explanation="Columns are told apart by name, and a chain keeps its order. But a file "
        "without header is bound by position, and so is UNION ALL: there, values move to other "
        "columns.",
        before="schema: [id BIGINT, price DOUBLE]",
        after="schema: [price DOUBLE, id BIGINT]",
        ways=("put new columns at the end",),
    ),
    Rule(
        code="ODF208",
        name="column-added",
        title="there is a new optional column",
        change=ChangeClass.ADDITIVE,
        severity=Severity.OFF,
        explanation="Rows so far read as null there; no query that was right becomes wrong.",
        before="schema: [id BIGINT]",
        after="schema: [id BIGINT, price DOUBLE]",
        ways=("nothing has to be done",),
    ),
    Rule(
        code="ODF209",
        name="column-added-required",
        title="there is a new column that may not be null",
        change=ChangeClass.BREAKING,
        severity=Severity.ERROR,
        explanation="Rows so far have no value for it, and files without it can no longer be "
        "read. A schema may only gain optional columns.",
        before="schema: [id BIGINT]",
        after="schema: [id BIGINT, price DOUBLE NOT NULL]",
        ways=("make {column} optional: leave out NOT NULL", _PUBLISH),
    ),
    Rule(
        code="ODF210",
        name="event-time-retyped",
        title="the event time column has another type",
        change=ChangeClass.BREAKING,
        severity=Severity.ERROR,
        explanation="Event time is what windows and watermarks are made of: a DATE and a TIMESTAMP "
        "fall into different windows. A chain keeps the type.",
        before="schema: [event_time DATE, id BIGINT]",
        after="schema: [event_time TIMESTAMP, id BIGINT]",
        ways=("cast {column} back in the query", _PUBLISH),
    ),
    Rule(
        code="ODF211",
        name="event-time-lost",
        title="the event time is no longer among the columns that are read or selected",
        change=ChangeClass.BREAKING,
        severity=Severity.ERROR,
        explanation="A root then takes the time of the fetch for the time of each row; a "
        "derivative cannot run at all, as every record needs an event time.",
        before="query: select event_time, id from trades",
        after="query: select id from trades",
        ways=("keep {column}",),
    ),
    Rule(
        code="ODF212",
        name="schema-unknown",
        title="what the columns will be cannot be told",
        change=ChangeClass.BREAKING,
        severity=Severity.ERROR,
        explanation="The definition changed in a way that is not understood without the engine or "
        "the data. Unknown counts as breaking, since nobody could say that it is not.",
        before="read: {kind: Csv, header: true, schema: [id BIGINT]}",
        after="read: {kind: Csv, header: true, inferSchema: true}",
        ways=("declare the columns", "odfbuild lock {dataset}, which asks the engine"),
    ),
    Rule(
        code="ODF213",
        name="column-type-unknown",
        title="the type of a changed column cannot be told",
        change=ChangeClass.BREAKING,
        severity=Severity.ERROR,
        explanation="The column is still there, but the expression that makes it changed to one "
        "whose type is known to the engine only.",
        before="query: select price from trades",
        after="query: select schema_of_json(price) as price from trades",
        ways=(
            "write the type: cast(... as ...) as {column}",
            "odfbuild lock {dataset}, which asks the engine",
        ),
    ),
)
