"""Queries of strangers: they compute rows of their inputs, and get nothing else of the machine."""

import ast
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from odfbuild.errors import OdfBuildError
from odfbuild.executors.data.frames import Frame
from odfbuild.executors.data.views import DatasetView
from odfbuild.executors.engine.analysis import AnalysedInput, Analysis
from odfbuild.executors.engine.protocol import RawQueryWork
from odfbuild.executors.engine.querier import QueryRequest
from odfbuild.executors.engine.spark import admission
from odfbuild.executors.engine.spark.admission import OPTIONS, RefusedPlanError, admitted
from odfbuild.executors.engine.spark.admission.plan_classes import ADMITTED, REFUSED
from odfbuild.executors.engine.spark.cluster.setting_check import RefusedSettingError
from odfbuild.executors.engine.spark.engine import SparkEngine
from odfbuild.executors.engine.spark.jvm.launch import spark_home
from odfbuild.executors.engine.spark.settings import GUARDED, StepSize
from odfbuild.odf.events import MergeStrategyAppend
from odfbuild.odf.schema.arrow import from_arrow
from odfbuild.sql import forbidden as refusals
from odfbuild.sql import spark_functions as registry
from odfbuild.sql.columns import functions
from odfbuild.sql.forbidden import GENERATORS
from odfbuild.sql.text.steps import QueryStep
from tests.executors.engine.spark.tables import MILLIS, VOCAB, ingest_request, sql, work_on, written
from tests.hostile import CANARY, CANARY_NAME
from tests.hostile.attacks import COMMANDS, FOREIGN, PLACES, PROGRAMS, READS
from tests.hostile.sql_door import TABLE as RANDOM_TABLE
from tests.hostile.sql_door import Statements, Watched, judged
from tests.support.projects import REPOSITORY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TABLE = pa.table({"x": [1, 2], "s": ['{"a": 1}', "<r><a>1</a></r>"]})


@pytest.fixture
def session(engine: SparkEngine) -> "Iterator[SparkSession]":
    """Yield a session with the table `t`."""
    found = engine._sessions.session(StepSize.SMALL)
    found.createDataFrame(TABLE).createOrReplaceTempView("t")
    yield found
    found.catalog.dropTempView("t")


@pytest.mark.holds("sql-programs")
@pytest.mark.parametrize("query", PROGRAMS)
def test_a_query_starts_no_program(query: str, session: "SparkSession", tmp_path: Path) -> None:
    refused(session, query.replace("{mark}", str(tmp_path / "mark")))
    assert not (tmp_path / "mark").exists()


@pytest.mark.holds("sql-programs")
@pytest.mark.parametrize(
    ("place", "name"), [(each, "reflect") for each in PLACES] + [(PLACES[0], n) for n in FOREIGN]
)
def test_a_query_calls_no_method_of_java(place: str, name: str, session: "SparkSession") -> None:
    call = f"{name}('java.lang.System', 'getenv', '{CANARY_NAME}')"
    assert CANARY not in refused(session, place.replace("{call}", call))


@pytest.mark.holds("sql-reads")
@pytest.mark.parametrize("query", READS)
def test_a_query_reads_its_inputs_only(query: str, session: "SparkSession") -> None:
    assert "root:" not in refused(session, query)


@pytest.mark.holds("sql-commands")
@pytest.mark.parametrize("query", COMMANDS)
def test_a_query_changes_nothing(query: str, session: "SparkSession", tmp_path: Path) -> None:
    refused(session, query.replace("{mark}", str(tmp_path / "mark")))
    assert not (tmp_path / "mark").exists()
    catalog = session._jsparkSession.sessionState().catalog()
    assert catalog.listTables("default").mkString(",") == "`t`"
    assert session.conf.get("spark.sql.variable.substitute") == "false"


def refused(session: "SparkSession", query: str) -> str:
    """Return what is said of a query that must not be admitted, or cannot be read."""
    from pyspark.errors import PySparkException

    with pytest.raises((RefusedPlanError, PySparkException)) as caught:
        admitted(session, query)
    error = caught.value
    if isinstance(error, PySparkException):
        assert error.getCondition(), "it names what it does not know"
        assert "PARSE" in error.getCondition() or "UNSUPPORTED" in error.getCondition(), error
    return str(error)


@pytest.mark.parametrize(
    "query",
    [
        "select struct(a, a as b) as s, struct(*) as r, named_struct('x', a) as n from t",
        "select a from t group by all",
        "select a, count(*) from t group by rollup (a)",
        "select * from (select a, b from t2) pivot (count(b) for a in (1, 2))",
        "select * from t2 unpivot (v for k in (a))",
        "select grouping(a), a, b from t2 group by grouping sets ((a), (b), ())",
        "with c as (select a from t) select a, (select max(a) from c) as m from c where a in"
        " (select a from c) and exists (select 1 from c)",
        "select a, row_number() over w from t window w as (partition by a order by a)",
        "select k, v from t lateral view outer explode(map(a, a)) as k, v",
        "select t.a, x.a from t left join lateral (select t.a) as x",
        "from t |> where a > 0 |> aggregate count(*) group by a",
        "select transform(array(a), x -> x + 1), aggregate(array(a), 0L, (s, x) -> s + x) from t",
        "select a from t tablesample (50 percent) repeatable (1)",
        "select * except (a) from t2 union all select b from t2",
        "select * from (values (1, 'x'), (2, null)) as v(a, b) natural join t2",
        "select a, max_by(b, a), listagg(b) within group (order by b) from t2 group by a",
        "select a from t2 qualify row_number() over (partition by a order by b) = 1",
    ],
)
def test_ordinary_queries_are_admitted(query: str, session: "SparkSession") -> None:
    session.sql("select 1L as a").createOrReplaceTempView("t")
    session.sql("select 1L as a, 'x' as b").createOrReplaceTempView("t2")
    assert admitted(session, query).toArrow().num_columns


@pytest.mark.holds("sql-environment")
@pytest.mark.parametrize("name", ["env:" + CANARY_NAME, "system:user.home", "spark.app.id", "x"])
@pytest.mark.parametrize(
    "query", ["select '${%s}' as a", "select 1 as `${%s}`", "select '${%s:-b}' /* ${%s} */ as a"]
)
def test_nothing_is_put_into_the_text(query: str, name: str, session: "SparkSession") -> None:
    text = query.replace("%s", name)
    rows = admitted(session, text).toArrow()
    assert f"${{{name}" in str(rows.to_pylist())
    assert CANARY not in str(rows.to_pylist())


@pytest.mark.holds("sql-environment")
def test_a_session_that_would_put_something_in_is_not_used(engine: SparkEngine) -> None:
    engine._sessions.session(StepSize.SMALL)
    for name in GUARDED:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("odfbuild.executors.engine.spark.session.GUARDED", {name: "another"})
            with pytest.raises(RefusedSettingError, match=re.escape(name)):
                engine._sessions._child(StepSize.SMALL)


UDT = {"type": "udt", "class": "org.apache.spark.deploy.SparkSubmit", "sqlType": "string"}
PYTHON = {"type": "udt", "pyClass": "os.abort", "serializedClass": "gA==", "sqlType": "string"}


@pytest.mark.holds("sql-types")
@pytest.mark.parametrize("kind", [UDT | {"pyClass": "a.b"}, PYTHON])
@pytest.mark.parametrize(
    "query",
    [
        "select from_json(s, '{schema}') as j from t",
        "select from_json(s, concat('{schema}')) as j from t",
        "select from_json(s, upper(lower('{schema}'))) as j from t",
        "select from_json(jsonStr => s, schema => '{schema}') as j from t",
        "select system.builtin.from_json(s, '{schema}') as j from t",
        "select from_csv(s, '{schema}') as j from t",
        "select from_xml(s, '{schema}') as j from t",
        "select variant_get(parse_json(s), '$.a', '{schema}') as j from t",
        "select try_variant_get(parse_json(s), '$.a', '{schema}') as j from t",
        "select a from t lateral view from_json(s, '{schema}') as a",
        "select a from t lateral view outer from_csv(s, '{schema}') as a",
        "select a from t lateral view explode(from_json(s, '{schema}')) as a",
    ],
)
def test_a_type_names_no_class_to_load(
    query: str, kind: dict[str, str], session: "SparkSession"
) -> None:
    field = {"name": "a", "nullable": True, "metadata": {}, "type": kind}
    schema = json.dumps({"type": "struct", "fields": [field]})
    with pytest.raises(RefusedPlanError, match="of a type"):
        admitted(session, query.replace("{schema}", schema))


@pytest.mark.holds("sql-xml")
@pytest.mark.parametrize("function", ["xpath_string", "xpath", "xpath_int", "xpath_boolean"])
@pytest.mark.parametrize(
    "document",
    [
        '<!DOCTYPE r SYSTEM "{url}"><r>q</r>',
        '<!DOCTYPE r PUBLIC "-//a//b" "{url}"><r>q</r>',
        '<!DOCTYPE r [<!ENTITY e SYSTEM "{url}">]><r>&e;</r>',
        '<!DOCTYPE r [<!ENTITY % e SYSTEM "{url}"> %e;]><r>q</r>',
    ],
)
def test_a_document_in_a_row_fetches_nothing(
    document: str, function: str, session: "SparkSession"
) -> None:
    with listening() as server:
        text = document.replace("{url}", f"http://127.0.0.1:{server.port}/{CANARY}.dtd")
        frame = session.createDataFrame(pa.table({"d": [text]}))
        frame.createOrReplaceTempView("documents")
        with_errors = admitted(session, f"select {function}(d, '/r') as v from documents")
        try:
            with_errors.collect()
        except (PySparkException, Py4JError) as error:
            assert "ConnectException" not in str(error)
    assert server.asked == []


@dataclass
class Listening:
    """A port, and who came."""

    port: int
    asked: list[str]
    socket: socket.socket

    def __enter__(self) -> "Listening":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def serve(self) -> None:
        try:
            while True:
                line, who = self.socket.accept()
                self.asked.append(str(who))
                line.close()
        except OSError:
            return


def listening() -> Listening:
    server = socket.create_server(("127.0.0.1", 0))
    found = Listening(server.getsockname()[1], [], server)
    threading.Thread(target=found.serve, daemon=True).start()
    return found


# Every caller

LOG = pa.table(
    {
        "offset": pa.array([0, 1]),
        "op": pa.array([0, 0], pa.int32()),
        "system_time": pa.array([0, 0], MILLIS),
        "event_time": pa.array([0, 1], MILLIS),
        **{name: TABLE.column(name) for name in TABLE.column_names},
    }
)


@pytest.mark.holds("sql-callers")
@pytest.mark.parametrize("caller", ["query", "preprocess", "raw query", "transform", "analyse"])
@pytest.mark.parametrize(
    "query",
    [
        "select transform(x) using 'touch {mark}' as (event_time timestamp) from {table}",
        "select event_time, s from (select transform(x) using 'touch {mark}' as (event_time "
        "timestamp, s string) from {table}) group by event_time, s",
        "select event_time, from_xml(s, 'a INT', map('rowValidationXSDPath', '{mark}')) as q "
        "from {table}",
        "select event_time, from_json(s, concat('a', ' INT')) as q from {table}",
        "select event_time, identifier('try_reflect')('java.lang.System', 'exit', 1) as q "
        "from {table}",
        "select event_time, `reflect`('java.lang.System', 'exit', 1) as q from {table}",
    ],
)
def test_no_caller_lets_it_through(
    query: str, caller: str, engine: SparkEngine, tmp_path: Path
) -> None:
    table = {"preprocess": "input", "raw query": "input"}.get(caller, "t")
    text = query.replace("{table}", table).replace("{mark}", str(tmp_path / "mark"))
    with pytest.raises(OdfBuildError) as caught:
        called(engine, caller, text, tmp_path)
    assert caught.value.fix
    assert not (tmp_path / "mark").exists()


def called(engine: SparkEngine, caller: str, text: str, folder: Path) -> object:
    match caller:
        case "query":
            path, schema = written(folder, LOG), from_arrow(LOG.schema)
            seen = DatasetView(paths=(path,), schema=schema, vocab=VOCAB)
            request = QueryRequest(text=text, views={"t": seen}, staging=folder, limit=None)
            return engine.query(request)
        case "preprocess":
            merge = MergeStrategyAppend()
            return engine.ingest(ingest_request(folder, TABLE, merge, preprocess=text))
        case "raw query":
            return engine.raw_query(
                RawQueryWork(source=Frame.of(TABLE), query=sql(text), staging=folder)
            )
        case "transform":
            return engine.transform(work_on(folder, sql(text), t=[LOG]))
        case _:
            source = AnalysedInput("t", from_arrow(LOG.schema), VOCAB)
            steps = (QueryStep(None, text),)
            return engine.analyse(Analysis(steps=steps, inputs=(source,), vocab=VOCAB))


@pytest.mark.holds("sql-callers")
def test_texts_reach_spark_through_one_module() -> None:
    package = REPOSITORY / "odfbuild"
    found = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call)
        and (
            node.func.attr in {"sql", "parsePlan", "sqlParser", "ofRows"}
            if isinstance(node.func, ast.Attribute)
            else isinstance(node.func, ast.Name) and node.func.id == "SQL"
        )
    }
    of_our_own = "executors/engine/datafusion/merging/relations.py"  # merges, in DataFusion
    drivers = {f"executors/engine/spark/cluster/{each}.py" for each in ("driver", "remote")}
    assert found == {*drivers, of_our_own}


# The lists


@pytest.mark.holds("sql-lists")
def test_every_function_of_spark_is_classified(session: "SparkSession") -> None:
    state = session._jsparkSession.sessionState()
    there = set()
    for registered in (state.functionRegistry(), state.tableFunctionRegistry()):
        names = registered.listFunction()
        there |= {names.apply(at).funcName() for at in range(names.size())}
    assert there == registry.ALLOWED | registry.REFUSED.keys()
    assert not registry.ALLOWED & registry.REFUSED.keys()


@pytest.mark.holds("sql-lists")
def test_what_is_known_of_functions_is_of_allowed_ones() -> None:
    known = {*functions.SCALARS, *functions.AGGREGATES, *functions.RANKINGS, *functions.UNTYPED}
    known |= {*GENERATORS, *refusals.MANY_ROWS, *refusals.SEVERAL_ROWS, *registry.TYPE_ARGUMENTS}
    others = {"timestampadd", "timestampdiff"}  # which Spark's grammar has
    for window in ("tumble", "hop", "session"):  # which become those that Spark has
        others |= {f"{window}_{part}" for part in ("start", "end", "rowtime")}
    assert known - registry.ALLOWED == others


_MAIN = re.compile(r"org/apache/spark/sql/catalyst/(expressions|analysis|plans/logical)/")


@pytest.mark.holds("sql-lists")
@pytest.mark.parametrize("where", [_MAIN, pytest.param(re.compile(""), marks=pytest.mark.slow)])
def test_every_class_of_plans_is_classified(
    where: re.Pattern[str], session: "SparkSession"
) -> None:
    listed = {each for each in ADMITTED | REFUSED if where.match(each.replace(".", "/"))}
    assert plan_classes(session, where) == listed
    assert not ADMITTED & REFUSED


def plan_classes(session: "SparkSession", where: re.Pattern[str]) -> set[str]:
    """Return the classes of Spark's jars of which plans and expressions may be."""
    names = [
        entry.removesuffix(".class").replace("/", ".")
        for jar in spark_home().glob("jars/spark-*.jar")
        for entry in ZipFile(jar).namelist()
        if entry.endswith(".class") and where.match(entry)
    ]
    source = """
package odfbuild;
public final class Listing {
    public static String of(String joined) throws Exception {
        ClassLoader loader = Listing.class.getClassLoader();
        String base = "org.apache.spark.sql.catalyst.";
        Class e = Class.forName(base + "expressions.Expression", false, loader);
        Class p = Class.forName(base + "plans.logical.LogicalPlan", false, loader);
        StringBuilder found = new StringBuilder();
        String[] names = joined.split(",");
        for (int i = 0; i < names.length; i++) {
            try {
                Class c = Class.forName(names[i], false, loader);
                boolean is = e.isAssignableFrom(c) || p.isAssignableFrom(c);
                if (is && !java.lang.reflect.Modifier.isAbstract(c.getModifiers())) {
                    found.append(names[i]).append(',');
                }
            } catch (Throwable missing) {
            }
        }
        return found.toString();
    }
}
"""
    compiled = compiler(session, source).getClassLoader().loadClass("odfbuild.Listing")
    gateway: Any = session.sparkContext._gateway
    none = gateway.new_array(gateway.jvm.java.lang.Class, 0)
    empty = gateway.new_array(gateway.jvm.java.lang.Object, 0)
    listing = compiled.getDeclaredConstructor(none).newInstance(empty)
    return set(listing.of(",".join(names)).split(",")) - {""}


def compiler(session: "SparkSession", source: str, parent: Any = None) -> Any:
    view: Any = session.sparkContext._gateway.jvm
    found = view.org.codehaus.janino.SimpleCompiler()
    theirs = view.java.lang.Thread.currentThread().getContextClassLoader()
    found.setParentClassLoader(theirs if parent is None else parent)
    found.cook(source)
    return found


@pytest.mark.holds("sql-lists")
def test_every_option_of_formats_is_classified(session: "SparkSession") -> None:
    view: Any = session.sparkContext._gateway.jvm
    loader = view.java.lang.Thread.currentThread().getContextClassLoader()
    there = set()
    for kind in ("json.JSONOptions$", "csv.CSVOptions$", "xml.XmlOptions$"):
        name = f"org.apache.spark.sql.catalyst.{kind}"
        module = view.java.lang.Class.forName(name, True, loader).getField("MODULE$").get(None)
        there |= set(module.getAllOptions().mkString(" ").lower().split())
    assert there - OPTIONS == {"rowvalidationxsdpath", "compression", "codec"}
    assert there >= OPTIONS


@pytest.mark.holds("sql-lists")
def test_the_class_that_lists_plans_is_made_of_its_source(session: "SparkSession") -> None:
    folder = REPOSITORY / "odfbuild/executors/engine/spark/admission"
    made = compiler(session, (folder / "PlanCensus.java").read_text("utf-8"))
    assert dict(made.getBytecodes()) == {
        "odfbuild.PlanCensus": (folder / "PlanCensus.class").read_bytes()
    }
    plugin = (folder / "AdmissionPlugin.java").read_text("utf-8")
    also = compiler(session, plugin, made.getClassLoader()).getBytecodes()
    assert dict(also) == {
        "odfbuild.AdmissionPlugin": (folder / "AdmissionPlugin.class").read_bytes()
    }


@pytest.mark.holds("sql-lists")
def test_what_spark_shows_of_its_functions_is_admitted(session: "SparkSession") -> None:
    """An eighth of Spark's own examples: none is refused."""
    from pyspark.errors import PySparkException

    state = session._jsparkSession.sessionState()
    names = state.functionRegistry().listFunction()
    wrong = []
    for at in range(0, names.size(), 8):
        function = names.apply(at)
        if function.funcName() not in registry.ALLOWED:
            continue
        shown = state.functionRegistry().lookupFunction(function).get().getExamples()
        for query in re.findall(r">\s*((?:SELECT|WITH) .*?);\s*$", shown, re.M | re.S)[:3]:
            try:
                admitted(session, query)
            except RefusedPlanError as error:
                wrong.append((query, error.what))
            except PySparkException:
                continue  # one that reads a view, or shows an error
    assert wrong == []


def test_a_statement_follows_from_its_seed_and_number() -> None:
    seen = Statements(7, "/f", ["abs(-1)", "concat('a', 'b')"])
    first = list(islice(seen, 40))
    assert [seen.numbered(at) for at in reversed(range(40))] == first[::-1]
    assert first != list(islice(Statements(8, "/f", ["abs(-1)"]), 40))


def test_what_strace_wrote_is_judged_in_parts(tmp_path: Path) -> None:
    log = tmp_path / "log"
    mine, others = '7 openat(AT_FDCWD, "/own/a", O_RDONLY) = 3\n', "7 connect(9, {...}) = 0\n"
    seen = Watched(log, [Path("/own")])
    log.write_text(f'{mine}7 openat(AT_FDCWD, "/etc/passwd", O_RDONLY) = 3\n{others[:9]}', "utf-8")
    assert len(seen.seen()) == 1
    with log.open("a", encoding="utf-8") as more:
        more.write(f"{others[9:]}{mine}")
    assert seen.seen() == [others.strip()]
    assert seen.seen() == []


@pytest.mark.holds("sql-programs", "sql-reads", "sql-environment")
def test_random_statements_get_nothing(session: "SparkSession", tmp_path: Path) -> None:
    """A few; `python -m tests.hostile.sql_door` runs many, and watches from outside."""
    file = tmp_path / "secret.txt"
    file.write_text(CANARY, "utf-8")
    session.createDataFrame(RANDOM_TABLE).createOrReplaceTempView("t")
    for text in islice(Statements(5, str(file)), 25):
        assert CANARY not in judged(session, text)[1], text
    assert list(tmp_path.iterdir()) == [file]


def test_steps_that_begin_together_load_one_class(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = []

    def load(gateway: object) -> object:
        time.sleep(0.05)
        loaded.append(gateway)
        return object()

    monkeypatch.setattr(admission, "_load_census", load)
    monkeypatch.setattr(admission, "_last", [])
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(_gateway="one"))
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(admission._census, [session] * 4))
    assert loaded == ["one"]
    assert len(set(map(id, found))) == 1
