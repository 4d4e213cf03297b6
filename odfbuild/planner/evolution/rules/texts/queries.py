"""ODF3xx: rules on how a query may change, and on what changes beneath it."""

from odfbuild.planner.evolution.rules.rule import Rule
from odfbuild.planner.plan.changes import ChangeClass
from odfbuild.planner.plan.policy import Severity

_PUBLISH = "publish the new form as {dataset}.v2"

QUERIES = (
    Rule(
        code="ODF301",
        name="query-changed",
        title="the columns stay, their values are computed in another way",
        change=ChangeClass.RESTATING,
        severity=Severity.WARN,
        explanation="Rows so far stay as they are unless the defaults in odfbuild.yaml say "
        "`on_query_change: restate`; rows to come are made by the new query.",
        before="query: select id, price * 2 as price from trades",
        after="query: select id, price * 3 as price from trades",
        ways=("set on_query_change for {dataset}", _PUBLISH),
    ),
    Rule(
        code="ODF302",
        name="query-extended",
        title="the query gives more columns and leaves all others as they were",
        change=ChangeClass.ADDITIVE,
        severity=Severity.OFF,
        explanation="The select list grew; what it had and which rows there are did not change. "
        "Rows so far have null in the new columns.",
        before="query: select id from trades",
        after="query: select id, price from trades",
        ways=("nothing has to be done",),
    ),
    Rule(
        code="ODF303",
        name="engine-changed",
        title="another engine runs the query",
        change=ChangeClass.RESTATING,
        severity=Severity.WARN,
        explanation="Engines differ in rounding, casts and the order of rows, so the same text can "
        "give other values.",
        before="transform: {kind: Sql, engine: datafusion, query: ...}",
        after="transform: {kind: Sql, engine: spark, query: ...}",
        ways=("keep the engine", _PUBLISH),
    ),
    Rule(
        code="ODF304",
        name="engine-version-changed",
        title="the changed query is recorded for another version of the engine",
        change=ChangeClass.DATA_ONLY,
        severity=Severity.OFF,
        explanation="Steps to come run on that version, and so does their verification.",
        before="transform: {kind: Sql, engine: spark, version: 4.2.0+odfbuild.1, query: ...}",
        after="transform: {kind: Sql, engine: spark, version: 4.3.0+odfbuild.1, query: ...}",
        ways=("nothing has to be done",),
    ),
    Rule(
        code="ODF305",
        name="upstream-column-removed",
        title="a query uses a column that its input no longer has",
        change=ChangeClass.BREAKING,
        severity=Severity.ERROR,
        explanation="A change of another dataset takes away what this query reads, in its select "
        "list or in a filter, join or grouping. The query itself did not change, and will fail or "
        "read null.",
        before="# trades: select id, amount, fee\nquery: select amount - fee as net from trades",
        after="# trades: select id, amount\nquery: select amount - fee as net from trades",
        ways=("keep {column} in {other}", "change the query of {dataset}"),
    ),
    Rule(
        code="ODF306",
        name="star-gains-column",
        title="an input has a new column, which `select *` takes in",
        change=ChangeClass.ADDITIVE,
        severity=Severity.WARN,
        explanation="The dataset grows a column that nobody decided on here. A query that has run "
        "keeps to the columns that its inputs had then, and takes in the new one when it changes.",
        before="# trades: id, price\nquery: select * from trades",
        after="# trades: id, price, note\nquery: select * from trades",
        ways=("name the columns instead of *", "exclude it: select * except ({column})"),
    ),
    Rule(
        code="ODF307",
        name="star-loses-column",
        title="an input lost a column, and `select *` with it",
        change=ChangeClass.BREAKING,
        severity=Severity.ERROR,
        explanation="The query is the same and goes on to run; its result silently lacks a column "
        "that readers may name.",
        before="# trades: id, price\nquery: select * from trades",
        after="# trades: id\nquery: select * from trades",
        ways=("keep {column} in {other}", "produce {column} in {dataset} itself"),
    ),
    Rule(
        code="ODF308",
        name="upstream-retyped",
        title="a column changes its type because one of an input does",
        change=ChangeClass.BREAKING,
        severity=Severity.ERROR,
        explanation="The query passes the type of its input on, so a change there is a change "
        "here, and for all that read this dataset.",
        before="# trades: price STRING\nquery: select price from trades",
        after="# trades: price DOUBLE\nquery: select price from trades",
        ways=("cast {column} to its old type in the query", "keep the type in {other}"),
    ),
    Rule(
        code="ODF309",
        name="upstream-type-used",
        title="a query uses a column of an input whose type changes",
        change=ChangeClass.RESTATING,
        severity=Severity.WARN,
        explanation="The columns of the result keep their types, but comparing, joining or "
        "computing with another type can select other rows and give other values.",
        before="# trades: day STRING\nquery: select id from trades where day > '2024'",
        after="# trades: day DATE\nquery: select id from trades where day > '2024'",
        ways=("cast {column} to its old type in the query",),
    ),
    Rule(
        code="ODF310",
        name="query-class-worsened",
        title="each step of the query has to look at more than new rows",
        change=ChangeClass.DATA_ONLY,
        severity=Severity.WARN,
        explanation="From least to most: linear, state, join, keyed, whole. A linear query costs "
        "what the new rows cost; a whole one costs the whole history at every step.",
        before="query: select id, price from trades",
        after="query: select id, price from trades order by price limit 10",
        ways=("leave that part to the readers of {dataset}", _PUBLISH),
    ),
    Rule(
        code="ODF311",
        name="rows-reshaped",
        title="filters, joins or groups changed: the columns stay, the rows do not",
        change=ChangeClass.RESTATING,
        severity=Severity.WARN,
        explanation="The select list is the same, but other rows come out of it, or each stands "
        "for something else. Rows so far stay unless `on_query_change: restate` is set.",
        before="query: select id, price from trades where price > 0",
        after="query: select id, price from trades where price > 10",
        ways=("set on_query_change for {dataset}", _PUBLISH),
    ),
    Rule(
        code="ODF312",
        name="query-unreadable",
        title="the query cannot be read, so what it means is unknown",
        change=ChangeClass.BREAKING,
        severity=Severity.ERROR,
        explanation="Unknown counts as breaking. Nothing can be said of the columns and rows that "
        "come out.",
        before="query: select id from trades",
        after="query: select id form trades",
        ways=("correct the query; put names that are SQL words in backticks",),
    ),
    Rule(
        code="ODF313",
        name="temporal-tables-changed",
        title="an input is kept as a table of latest values in another way",
        change=ChangeClass.RESTATING,
        severity=Severity.WARN,
        explanation="Which version of a row the query meets depends on the key by which versions "
        "replace each other.",
        before="temporalTables: [{name: rates, primaryKey: [pair]}]",
        after="temporalTables: [{name: rates, primaryKey: [pair, market]}]",
        ways=(_PUBLISH,),
    ),
    Rule(
        code="ODF314",
        name="query-reformatted",
        title="only spaces, comments or the case of keywords changed",
        change=ChangeClass.METADATA,
        severity=Severity.OFF,
        explanation="The words of the query are the same, so its result is.",
        before="query: select id from trades",
        after="query: |\n  SELECT id  -- the key\n  FROM trades",
        ways=("nothing has to be done",),
    ),
)
