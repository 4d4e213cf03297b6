"""Trades at the rates that were in force, where the rates are a Snapshot that forgets old ones."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from odfbuild.executors.engine.analysis import AnalysedInput, Analysis, RefusedQueryError
from odfbuild.executors.engine.context import Site
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.engine.spark.errors import SparkQueryError
from odfbuild.executors.verify.history import RecordedHistories
from odfbuild.executors.verify.replay import recorded_steps, replay
from odfbuild.odf.chain.schema import schema_in_force
from odfbuild.odf.events import (
    DatasetKind,
    FetchStepFilesGlob,
    MergeStrategy,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    ReadStepCsv,
    SetPollingSource,
    SetTransform,
    SetVocab,
    TemporalTable,
    TransformInput,
)
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.schema.arrow import from_arrow
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.declared import Declared
from odfbuild.sql.text.steps import steps_of
from tests.planner.builders import declare, sql
from tests.support.workshop import Workshop

pytestmark = pytest.mark.spark

QUERY = (
    "select l.t, id, l.cur, rate from trades l "
    "left join rates for system_time as of l.t as r on r.cur = l.cur"
)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    with SparkEngine(tmp_path_factory.mktemp("jvm"), cores=2) as engine:
        yield engine


class Exchange(Workshop):
    """Two roots, and trades with their rates."""

    def __init__(self, folder: Path, spark: SparkEngine) -> None:
        super().__init__(folder)
        self.spark = spark

    def site(self) -> Site:
        return replace(super().site(), engine=self.spark)

    def day(self, number: int, rates: Sequence[str] = (), trades: Sequence[str] = ()) -> None:
        """Bring files, and apply."""
        self.now = Timestamp.parse(f"2025-01-{number:02}T00:00:00Z")
        if rates:
            self.file(f"rates-{number}.csv", *rates, header="t,cur,rate")
        if trades:
            self.file(f"trades-{number}.csv", *trades, header="t,id,cur")
        report = self.apply([*_ROOTS, _derivative(QUERY)])
        assert not report.failures, [each.error.what for _, each in report.failures]


def _root(name: str, merge: MergeStrategy, *columns: str) -> Declared:
    source = SetPollingSource(
        fetch=FetchStepFilesGlob(path=f"data/{name}-*.csv"),
        read=ReadStepCsv(ddl_schema=("t DATE NOT NULL", *columns), header=True),
        merge=merge,
    )
    return declare(name, DatasetKind.ROOT, (source, SetVocab(event_time_column="t")))


_ROOTS = (
    _root("rates", MergeStrategySnapshot(primary_key=("cur",)), "cur STRING", "rate BIGINT"),
    _root("trades", MergeStrategyLedger(primary_key=("id",)), "id STRING", "cur STRING"),
)


def _transform(query: str, *key: str) -> SetTransform:
    inputs = tuple(TransformInput(DatasetAlias.parse(n), n) for n in ("trades", "rates"))
    return SetTransform(
        inputs=inputs,
        transform=replace(sql(query), temporal_tables=(TemporalTable("rates", key or ("cur",)),)),
    )


def _derivative(query: str) -> Declared:
    events = (_transform(query), SetVocab(event_time_column="t"))
    return declare("valued", DatasetKind.DERIVATIVE, events)


@pytest.fixture(scope="module")
def exchange(tmp_path_factory: pytest.TempPathFactory, spark: SparkEngine) -> Exchange:
    made = Exchange(tmp_path_factory.mktemp("exchange"), spark)
    made.day(
        1, ["2024-01-01,eur,10", "2024-01-01,usd,20"], ["2024-01-01,a,eur", "2024-01-03,b,usd"]
    )
    made.day(2, ["2024-01-02,eur,11", "2024-01-02,usd,20"], ["2024-01-02,c,eur"])
    made.day(3, ["2024-01-04,eur,12", "2024-01-04,usd,21"])
    made.day(4, [], ["2024-01-01,d,eur", "2024-01-02,e,gbp", "2024-01-05,f,usd"])
    made.day(5, ["2024-01-06,eur,12", "2024-01-06,gbp,30"])
    made.day(6, ["2024-01-07,eur,13", "2024-01-07,gbp,30"], ["2024-01-06,g,eur"])
    return made


def test_a_trade_has_the_rate_that_was_in_force(exchange: Exchange) -> None:
    assert [row[1:] for row in exchange.rows("valued")] == [
        (0, "a", "eur", 10),  # the first day: b has to wait for the rates of its time
        (0, "c", "eur", 11),  # the Snapshot took 10 back, which stays in force for a
        (0, "b", "usd", 20),  # no trade came; 21 is in force from the fourth on
        (0, "d", "eur", 10),  # late
        (0, "e", "gbp", None),  # there is no rate, yet it appears
        (0, "f", "usd", None),  # 21 was taken back, and 20 ended when that began
        (0, "g", "eur", 12),
    ]


def test_its_steps_give_the_same_rows_again(exchange: Exchange, spark: SparkEngine) -> None:
    past = RecordedHistories(exchange.workspace)
    history = past.history(exchange.dataset("valued").id)
    assert history is not None
    found = [
        replay(step, past, spark, exchange.workspace, anyway=False)
        for step in recorded_steps(history)
    ]
    assert len(found) > 4
    assert [each.findings for each in found] == [()] * len(found)


def _analysis(exchange: Exchange, transform: SetTransform) -> Analysis:
    states = [(name, exchange.dataset(name).state()) for name in ("trades", "rates")]
    inputs = []
    for name, state in states:
        assert state is not None
        schema = schema_in_force(state)
        assert schema is not None
        inputs.append(AnalysedInput(name, schema, state.vocab))
    return Analysis(
        steps=steps_of(transform.transform), inputs=tuple(inputs), vocab=inputs[0].vocab
    )


def test_the_columns_of_a_query_are_told_without_rows(
    exchange: Exchange, spark: SparkEngine
) -> None:
    found = spark.analyse(_analysis(exchange, _transform(QUERY)))
    assert [each.name for each in from_arrow(found).fields] == ["op", "t", "id", "cur", "rate"]


def test_errors_point_into_the_text_of_the_user(exchange: Exchange, spark: SparkEngine) -> None:
    with pytest.raises(SparkQueryError) as caught:
        spark.analyse(_analysis(exchange, _transform(QUERY.replace("r.cur =", "r.curr ="))))
    assert caught.value.at is not None
    assert caught.value.at.start == QUERY.index("r.cur =")


@pytest.mark.parametrize(
    ("query", "key", "what"),
    [
        (QUERY, "curr", "'rates' has no column 'curr'"),
        (QUERY.replace("as of l.t", "as of l.id"), "cur", "l.id is not the event time of 'trades'"),
    ],
)
def test_a_step_is_refused_before_it_runs(
    query: str, key: str, what: str, tmp_path: Path, spark: SparkEngine
) -> None:
    made = Exchange(tmp_path, spark)
    made.file("rates-1.csv", "2024-01-01,eur,10", header="t,cur,rate")
    made.file("trades-1.csv", "2024-01-01,a,eur", header="t,id,cur")
    events = (_transform(query, key), SetVocab(event_time_column="t"))
    report = made.apply([*_ROOTS, declare("valued", DatasetKind.DERIVATIVE, events)])
    ((_, failed),) = report.failures
    assert isinstance(failed.error, RefusedQueryError)
    assert what in failed.error.what
    assert failed.error.fix
