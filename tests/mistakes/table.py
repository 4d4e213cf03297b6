"""The mistakes by what they are made in; their answers are in the folder `answers`."""

from tests.mistakes.mistake import Mistake, changed, put
from tests.mistakes.shop import CUSTOMERS, ORDERS, of_orders

__all__ = ["TABLE"]

_ORDERS = "datasets/orders.yaml"
_BIG = "datasets/big.yaml"
_DAY = "orders/2024-01-02.csv"
_HEAD = "id,at,customer,cents\n"


def _orders(*pairs: str) -> Mistake:
    return put({_ORDERS: changed(*pairs)})


def _new(*pairs: str, silent: str = "") -> Mistake:
    """Return a mistake in a second root like the orders, which is not built yet."""
    text = changed("name: orders", "name: new", *pairs)(ORDERS)
    return put({"datasets/new.yaml": text}, silent=silent)


def _big(*pairs: str) -> Mistake:
    return put({_BIG: changed(*pairs)})


def _query(text: str, silent: str = "") -> Mistake:
    return put(of_orders(text), silent=silent)


def _settings(text: str) -> Mistake:
    return put({"odfbuild.yaml": lambda old: old + text})


def _day(text: str | bytes, *command: str) -> Mistake:
    return put({_DAY: text}, *(command or ("apply", "--yes")))


_PLAIN = """\
kind: DatasetSnapshot
version: 1
content:
  name: new
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch: {kind: FilesGlob, path: new/*}
      read: {kind: Csv, header: true}
      merge: {kind: Append}
"""
YAML = {
    "a tab indents": _orders("  name: orders", "\tname: orders"),
    "a colon is missing": _orders("kind: Root", "kind Root"),
    "a space after a colon is missing": _orders("kind: Root", "kind:Root"),
    "a key stands twice": _orders("  kind: Root\n", "  kind: Root\n  kind: Root\n"),
    "a quote is left open": _orders("path: orders/*.csv", "path: 'orders/*.csv"),
    "a bracket is left open": _orders("[id]", "[id"),
    "a list is indented too little": _orders("          - at TIMESTAMP", "        - at TIMESTAMP"),
    "a star begins a value": _orders("path: orders/*.csv", "path: *.csv"),
    "a pattern holds a colon and a space": _orders("path: orders/*.csv", "path: orders: *.csv"),
    "the file is empty": put({"datasets/new.yaml": ""}),
    "the file has comments only": put({"datasets/new.yaml": "# later\n"}),
    "the file is not UTF-8": put({"datasets/new.yaml": "kind: Datensätze\n".encode("latin-1")}),
    "the file is a list": put({"datasets/new.yaml": "- kind: DatasetSnapshot\n"}),
    "the file is a word": put({"datasets/new.yaml": "orders\n"}),
    "the file has another extension": put({"datasets/new.yml": ORDERS}),
}
DEFINITIONS = {
    "the kind of a document is misspelt": _new("DatasetSnapshot", "DatasetSnaphot"),
    "the version is not there": _new("version: 1\n", ""),
    "the version is of the future": _new("version: 1", "version: 2"),
    "the content is not there": put({"datasets/new.yaml": "kind: DatasetSnapshot\nversion: 1\n"}),
    "a name has a space": _new("name: new", "name: my orders"),
    "a name is not there": _new("  name: new\n", ""),
    "a name is given twice": put({"datasets/new.yaml": ORDERS}),
    "a name differs in case only": _new("name: new", "name: Orders"),
    "the kind of a dataset is misspelt": _new("kind: Root", "kind: Rot"),
    "a root has no source": put(
        {"datasets/new.yaml": ORDERS[: ORDERS.index("  metadata")].replace("orders", "new")
         + "  metadata: []\n"},
        silent="the plan says that its columns are not known; blocks may come by other ways",
    ),
    "an event is misspelt": _new("SetPollingSource", "SetPolingSource"),
    "an event stands twice": _new(
        "    - kind: SetVocab\n      eventTimeColumn: at\n",
        "    - kind: SetVocab\n      eventTimeColumn: at\n"
        "    - kind: SetVocab\n      eventTimeColumn: id\n",
    ),
    "a property is misspelt": _new("primaryKey", "primaryKeys"),
    "a property is in the wrong case": _new("eventTimeColumn", "event_time_column"),
    "a property is one level too high": _new(
        "        kind: Csv\n        header: true\n", "        kind: Csv\n      header: true\n"
    ),
    "a flag is no flag": _new("header: true", "header: maybe"),
    "the merge is not there": _new(
        "      merge:\n        kind: Ledger\n        primaryKey: [id]\n", ""
    ),
    "the merge is misspelt": _new("Ledger", "Leger"),
    "a ledger has no key": _new("        primaryKey: [id]\n", ""),
    "a key is no column": _new("[id]", "[order_id]"),
    "a key is in the wrong case": _new("[id]", "[ID]"),
    "a key is empty": _new("[id]", "[]"),
    "a type is misspelt": _new("customer STRING", "customer STRNG"),
    "a type is one of Python": _new("customer STRING", "customer str"),
    "a type is not there": _new("customer STRING", "customer"),
    "a column stands twice": _new("cents BIGINT", "customer BIGINT"),
    "a column is called as a system column": _new("cents BIGINT", "offset BIGINT"),
    "a decimal has too many digits": _new("cents BIGINT", "cents DECIMAL(50, 2)"),
    "columns are a mapping": _new(
        "          - id INT NOT NULL\n          - at TIMESTAMP NOT NULL\n"
        "          - customer STRING\n          - cents BIGINT\n",
        "          id: INT\n          at: TIMESTAMP\n",
    ),
    "the event time is no column": _new(
        "eventTimeColumn: at", "eventTimeColumn: time",
        silent="the source may give the time of a file under this name",
    ),
    "the event time is a text": _new("at TIMESTAMP NOT NULL", "at STRING NOT NULL"),
    "the event time may be null": _new(
        "at TIMESTAMP NOT NULL", "at TIMESTAMP",
        silent="the rows decide: one without a time is refused",
    ),
    "the fetch is misspelt": _new("FilesGlob", "FileGlob"),
    "a pattern has no path": _new("        path: orders/*.csv\n", ""),
    "a pattern names nothing": _new(
        "orders/*.csv", "order/*.csv", silent="the plan says that there is no file yet"
    ),
    "a pattern names a folder": _new(
        "orders/*.csv", "orders", silent="the plan says that this is a folder"
    ),
    "an address has no scheme": _new(
        "kind: FilesGlob\n        path: orders/*.csv", "kind: Url\n        url: example.org/a.csv"
    ),
    "an address has another scheme": _new(
        "kind: FilesGlob\n        path: orders/*.csv", "kind: Url\n        url: s3://bucket/a.csv"
    ),
    "the reader is misspelt": _new("kind: Csv", "kind: CSV"),
    "a separator is a word": _new("header: true", "header: true\n        separator: comma"),
    "an encoding is not known": _new("header: true", "header: true\n        encoding: utf-9"),
    "a time of the path has a bad pattern": put(
        {"datasets/new.yaml": changed("name: customers", "name: new", r"(\d{4}", r"((\d{4}")(
            CUSTOMERS
        )}
    ),
    "a time of the path has no group": put(
        {"datasets/new.yaml": changed(
            "name: customers", "name: new", r"(\d{4}-\d{2}-\d{2})", r"\d{4}-\d{2}-\d{2}"
        )(CUSTOMERS)}
    ),
    "a preparation is not known": _new(
        "      read:\n",
        "      prepare:\n        - kind: Decompress\n          format: Rar\n      read:\n",
    ),
}  # fmt: skip
DERIVATIVES = {
    "an input is misspelt": _big("datasetRef: orders", "datasetRef: order"),
    "an input is itself": _big("datasetRef: orders", "datasetRef: big"),
    "inputs go round": put(
        {_BIG: changed("datasetRef: orders", "datasetRef: latest"),
         "datasets/latest.yaml": changed("datasetRef: orders", "datasetRef: big")}
    ),
    "inputs are not there": _big(
        "      inputs:\n        - datasetRef: orders\n          alias: o\n", ""
    ),
    "an input is a plain name": _big("- datasetRef: orders\n          alias: o", "- orders"),
    "an alias stands twice": _big(
        "          alias: o\n",
        "          alias: o\n        - datasetRef: customers\n          alias: o\n",
    ),
    "the engine is misspelt": _big("engine: spark", "engine: sprak"),
    "the engine is not here": _big("engine: spark", "engine: flink"),
    "the query is not there": _big(
        "        query: |\n          select at, id, customer, cents from o where cents >= 0\n", ""
    ),
    "the query is empty": _big("select at, id, customer, cents from o where cents >= 0", ""),
    "a root has a transform": _big("kind: Derivative", "kind: Root"),
    "a derivative has a source": put({_ORDERS: changed("kind: Root", "kind: Derivative")}),
}  # fmt: skip
QUERIES = {
    "a column is misspelt": _query("select at, custmer from o"),
    "a table is misspelt": _query("select at, id from oo"),
    "a dataset is in the place of its alias": _query("select at, id from orders"),
    "a function is misspelt": _query("select at, uper(customer) as c from o"),
    "a function of another database": _query("select at, ifnul(cents, 0) as c from o"),
    "a word is misspelt": _query("selct at, id from o"),
    "a comma is too much": _query("select at, id, from o"),
    "a comma is missing": _query("select at, id customer cents from o"),
    "a bracket is left open in a query": _query("select at, coalesce(cents, 0 as c from o"),
    "a text is left open": _query("select at, id from o where customer = 'ann"),
    "two statements": _query("select at, id from o; select at from o"),
    "no event time": _query("select id, customer from o"),
    "an event time under another name": _query("select at as day, id from o"),
    "two columns of one name": _query("select at, id, cents as id from o"),
    "an expression without a name": _query(
        "select at, cents + 1 from o", silent="the engine names the column"
    ),
    "a column is not grouped": _query("select at, customer, sum(cents) as c from o group by at"),
    "an aggregate in where": _query("select at, id from o where sum(cents) > 1"),
    "an alias in where": _query("select at, cents / 100 as euros from o where euros > 1"),
    "a text is added up": _query("select max(at) as at, sum(upper(customer)) as s from o"),
    "the clock is asked": _query("select at, id, now() as seen from o"),
    "chance is asked": _query("select at, id from o where rand() < 0.5"),
    "a limit without an order": _query("select at, id from o limit 10"),
    "a table is made": _query("create table t as select at, id from o"),
    "rows are changed": _query("delete from o where cents = 0"),
    "a file is read": _query("select at, id from csv.`/etc/passwd`"),
    "sides of a union differ": _query("select at, id from o union all select at from o"),
    "a name that both sides have": _query("select at, id from o join o as p on o.id = p.id"),
    "a column that a subquery has twice": _query(
        "select at, id from (select at, id, cents as id from o) as p"
    ),
    "a field that a struct has twice": _query(
        "select at, struct(id as a, cents as a).a as b from o"
    ),
    "a field that a column of structs has twice": _query(
        "select at, s.a from (select at, array(struct(id as a, cents as a)) as s from o) as p"
    ),
    "a jinja variable": _query("select at, id from {{ table }}"),
    "a parameter": _query("select at, id from o where id = :id"),
}
SETTINGS = {
    "a key of the project is misspelt": _settings("gate: {}\n"),
    "the project is of another version": put({"odfbuild.yaml": "odfbuild: 2\nname: shop\n"}),
    "the project has no version": put({"odfbuild.yaml": "name: shop\n"}),
    "a folder of definitions is not there": put(
        {"odfbuild.yaml": changed("[datasets]", "[dataset]")}
    ),
    "a gate is not known": _settings("gates: {date: error}\n"),
    "a level is not known": _settings("gates: {data: fatal}\n"),
    "a default is of a dataset that is not there": _settings(
        "defaults:\n  order: {on_query_change: restate}\n"
    ),
    "a default is misspelt": _settings("defaults:\n  orders: {on_query_chnge: restate}\n"),
    "a choice is not known": _settings("defaults:\n  orders: {on_query_change: rebuild}\n"),
    "a rule of rereading is not safe": _settings("defaults:\n  orders: {reread: changed}\n"),
    "a selector cannot be read": _settings('selectors:\n  nightly: "tag:"\n'),
    "a target is not there": put({}, "plan", "--target", "prod"),
    "a template asks for a variable that is not there": put(
        {
            "datasets/new.yaml.j2": changed(
                "name: orders", "name: new", "orders/*.csv", "{{ var.folder }}/*.csv"
            )(ORDERS)
        }
    ),
    "a rename names nothing": _settings("moved:\n  - {from: ordrs, to: purchases}\n"),
}
COMMANDS = {
    "a command is misspelt": put({}, "aply"),
    "an option is misspelt": put({}, "plan", "--detail-exitcode"),
    "a dataset is misspelt": put({}, "show", "order"),
    "a selector names nothing": put({}, "plan", "tag:nightly"),
    "a selector is misspelt": put({}, "plan", "tags:nightly"),
    "an argument is missing": put({}, "show"),
    "a number is a word": put({}, "show", "orders", "-n", "all"),
    "apply cannot ask": put({_DAY: _HEAD}, "apply"),
    "a plan file is not there": put({}, "apply", "plan.json"),
    "a plan file is another file": put({}, "apply", "odfbuild.yaml"),
    "a plan goes into a folder that is not there": put(
        {_DAY: _HEAD + "3,2024-01-02T10:00:00Z,ann,1\n"}, "plan", "--out", "plans/today.json"
    ),
    "a block is not there": put({}, "log", "orders", "ffffff"),
    "a reset goes nowhere": put({}, "reset", "orders", "ffffff", "--yes"),
    "a run is not there": put({}, "undo", "yesterday", "--yes"),
    "a rename takes a name": put({}, "mv", "orders", "customers"),
    "a rename of nothing": put({}, "mv", "ordrs", "purchases"),
    "a derivative is pushed to": put({}, "ingest", "big", "orders/2024-01-01.csv"),
    "a root without a push source is pushed to": put(
        {}, "ingest", "orders", "orders/2024-01-01.csv"
    ),
    "a root is rebuilt": put({}, "rebuild", "orders", "--yes"),
    "what is imported is no chain": put({}, "import", "orders"),
    "what is imported is not there": put({}, "import", "../other"),
    "a definition is made of no file": put({}, "new", "returns", "--from", "returns.csv"),
    "a revision is not there": put({}, "plan", "--against", "main"),
    "a query names no dataset": put({}, "sql", "select * from order"),
    "a rule is not there": put({}, "help", "ODF999"),
    "a project is not there": put({"odfbuild.yaml": None}),
    "a dataset is retired that is declared": put({}, "retire", "orders", "--yes"),
}
SOURCES = {
    "a file has a column of the system": put(
        {"datasets/new.yaml": _PLAIN, "new/1.csv": "id,offset,op\n1,7,buy\n"}, "apply", "--yes"
    ),
    "a record has a key twice": put(
        {"datasets/new.yaml": _PLAIN.replace("kind: Csv, header: true", "kind: NdJson"),
         "new/1.json": '{"id": 1}\n{"id": 2, "id": 3}\n'},
        "apply", "--yes",
    ),
    "a column has another name": _day("id,at,client,cents\n3,2024-01-02T10:00:00Z,ann,1\n"),
    "a column is missing": _day("id,at,customer\n3,2024-01-02T10:00:00Z,ann\n"),
    "a column is new": _day(
        "id,at,customer,cents,note\n3,2024-01-02T10:00:00Z,ann,1,x\n"
    ),
    "columns are in another order": _day(
        "id,at,cents,customer\n3,2024-01-02T10:00:00Z,1,ann\n"
    ),
    "a file has no header": _day("3,2024-01-02T10:00:00Z,ann,1\n4,2024-01-02T11:00:00Z,ann,1\n"),
    "a file has another separator": _day("id;at;customer;cents\n3;2024-01-02T10:00:00Z;ann;1\n"),
    "a number is a text": _day(_HEAD + "3,2024-01-02T10:00:00Z,ann,12 euros\n"),
    "a number has a comma": _day(_HEAD + '3,2024-01-02T10:00:00Z,ann,"1,200"\n'),
    "a number is too large": _day(_HEAD + "99999999999,2024-01-02T10:00:00Z,ann,1\n"),
    "a time is of another form": _day(_HEAD + "3,02.01.2024 10:00,ann,1\n"),
    "a day is none": _day(_HEAD + "3,2024-02-30T10:00:00Z,ann,1\n"),
    "a key is null": _day(_HEAD + ",2024-01-02T10:00:00Z,ann,1\n"),
    "an event time is null": _day(_HEAD + "3,,ann,1\n"),
    "a line has too few values": _day(_HEAD + "3,2024-01-02T10:00:00Z\n"),
    "a line has too many values": _day(_HEAD + "3,2024-01-02T10:00:00Z,ann,1,2\n"),
    "a quote is not closed": _day(_HEAD + '3,2024-01-02T10:00:00Z,"ann,1\n'),
    "a file is empty": _day(""),
    "a file has a header only": _day(_HEAD),
    "a file is compressed": _day(b"\x1f\x8b\x08\x00" + bytes(20)),
    "a file is not UTF-8 inside": _day(
        (_HEAD + "3,2024-01-02T10:00:00Z,Zoë,1\n").encode("latin-1")
    ),
    "a file is UTF-16": _day((_HEAD + "3,2024-01-02T10:00:00Z,ann,1\n").encode("utf-16")),
    "a file is a page of a browser": _day("<!DOCTYPE html>\n<html><body>404</body></html>\n"),
    "a key occurs twice in a file": _day(
        _HEAD + "3,2024-01-02T10:00:00Z,ann,1\n3,2024-01-02T11:00:00Z,ann,2\n"
    ),
    "a key of before is in a file": _day(_HEAD + "1,2024-01-02T10:00:00Z,ann,999\n"),
    "a file comes late": put({"orders/2023-12-31.csv": _HEAD + "9,2023-12-31T10:00:00Z,ann,1\n"}),
    "a file that was read is corrected": put(
        {"orders/2024-01-01.csv": changed("ann,500", "ann,5000")}
    ),
    "a file that was read is gone": put(
        {"orders/2024-01-01.csv": None}, silent="what was read is in the dataset"
    ),
    "a name of a file has no time": put(
        {"customers/new.csv": "customer,city\neve,Rome\n"}, "apply", "--yes"
    ),
}  # fmt: skip
CHANGES = {
    "a column is dropped": _orders("          - cents BIGINT\n", ""),
    "a column has another type": _orders("cents BIGINT", "cents STRING"),
    "a column has a narrower type": _orders("cents BIGINT", "cents INT"),
    "a column is renamed": _orders("cents BIGINT", "amount BIGINT"),
    "a column is added that may not be null": _orders(
        "          - cents BIGINT\n",
        "          - cents BIGINT\n          - place STRING NOT NULL\n",
    ),
    "a column may not be null any more": _orders("customer STRING", "customer STRING NOT NULL"),
    "columns are put in another order": _orders(
        "          - customer STRING\n          - cents BIGINT\n",
        "          - cents BIGINT\n          - customer STRING\n",
    ),
    "the key is another": _orders("[id]", "[id, customer]"),
    "the merge is another": _orders("Ledger\n        primaryKey: [id]", "Append"),
    "the event time is another column": _orders("eventTimeColumn: at", "eventTimeColumn: cents"),
    "a root becomes a derivative": put(
        {_ORDERS: None,
         "datasets/orders2.yaml": changed("name: orders", "name: orders2")(ORDERS)}
    ),
    "a dataset that others read is deleted": put({_ORDERS: None}),
    "a dataset is renamed by hand": put(
        {_ORDERS: changed("name: orders", "name: purchases"),
         _BIG: changed("datasetRef: orders", "datasetRef: purchases"),
         "datasets/latest.yaml": changed("datasetRef: orders", "datasetRef: purchases")}
    ),
    "a query filters otherwise": _big("cents >= 0", "cents >= 600"),
    "a query gives a column another type": _big(
        "customer, cents", "customer, cast(cents as string) as cents"
    ),
    "a query gives one column less": _big("customer, cents from", "customer from"),
    "an input is another": _big("datasetRef: orders", "datasetRef: latest"),
}  # fmt: skip
TABLE = {
    "yaml": YAML,
    "definitions": DEFINITIONS,
    "derivatives": DERIVATIVES,
    "queries": QUERIES,
    "settings": SETTINGS,
    "commands": COMMANDS,
    "sources": SOURCES,
    "changes": CHANGES,
}
