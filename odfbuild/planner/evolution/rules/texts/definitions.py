"""The rules on definitions: ODF101 to ODF121."""

from odfbuild.planner.evolution.rules.rule import Rule
from odfbuild.planner.plan.changes import ChangeClass
from odfbuild.planner.plan.policy import Severity

DEFINITIONS = (
    Rule(
        code="ODF101",
        name="kind-changed",
        title="a root dataset became a derivative one, or the other way round",
        change=ChangeClass.BREAKING,
        severity=Severity.ERROR,
        explanation="The kind is part of the first block of a chain and stays for good. Readers "
        "rely on it, too: a root is a source of facts, a derivative can be recomputed.",
        before="kind: Root",
        after="kind: Derivative",
        ways=("declare the new form under another name",),
    ),
    Rule(
        code="ODF102",
        name="vocabulary-changed",
        title="the system columns have other names",
        change=ChangeClass.BREAKING,
        severity=Severity.ERROR,
        explanation="Queries name the event time and the operation by the columns that the "
        "vocabulary gives. Before the first data it changes without a word; with data only a new "
        "chain takes other names.",
        before="- kind: SetVocab\n  eventTimeColumn: date",
        after="- kind: SetVocab\n  eventTimeColumn: day",
        ways=("put the SetVocab event back", "declare the new form under another name"),
    ),
    Rule(
        code="ODF103",
        name="merge-strategy-changed",
        title="new rows are merged into the history in another way",
        change=ChangeClass.BREAKING,
        severity=Severity.ERROR,
        explanation="Append keeps every row, Ledger one of each key, Snapshot corrects what "
        "changed. Readers of the rows so far were told one of these, and the rows to come follow "
        "another.",
        before="merge: {kind: Append}",
        after="merge: {kind: Ledger, primaryKey: [id]}",
        ways=("keep the strategy", "publish the new form as {dataset}.v2"),
    ),
    Rule(
        code="ODF104",
        name="primary-key-changed",
        title="rows are told apart by other columns",
        change=ChangeClass.BREAKING,
        severity=Severity.ERROR,
        explanation="The key says which rows are one thing over time. Under another key, rows that "
        "were one become several, or the other way round, against a history written under the "
        "old key.",
        before="merge: {kind: Snapshot, primaryKey: [city]}",
        after="merge: {kind: Snapshot, primaryKey: [city, year]}",
        ways=("keep the key", "publish the new form as {dataset}.v2"),
    ),
    Rule(
        code="ODF105",
        name="compare-columns-changed",
        title="a snapshot looks at other columns to see what changed",
        change=ChangeClass.RESTATING,
        severity=Severity.WARN,
        explanation="Columns that are not compared change without a correction. The next snapshot "
        "writes corrections for differences that were left alone before, or leaves alone what "
        "it corrected.",
        before="merge: {kind: Snapshot, primaryKey: [id], compareColumns: [price]}",
        after="merge: {kind: Snapshot, primaryKey: [id], compareColumns: [price, stock]}",
        ways=("tell the readers of {dataset}",),
    ),
    Rule(
        code="ODF106",
        name="source-disabled",
        title="a source that fed the dataset is no longer declared",
        change=ChangeClass.BREAKING,
        severity=Severity.ERROR,
        explanation="No new rows come from it. All readers keep what there is, and wait for more "
        "in vain.",
        before="- kind: SetPollingSource\n  fetch: {kind: Url, url: https://example.org/a.csv}",
        after="(no SetPollingSource)",
        ways=("keep the source", "remove the dataset and what reads it"),
    ),
    Rule(
        code="ODF107",
        name="source-changed",
        title="the rows are fetched from elsewhere",
        change=ChangeClass.DATA_ONLY,
        severity=Severity.OFF,
        explanation="Another address, pattern or kind of source. What was read stays; how far the "
        "old source was read says nothing of the new one, so rows may come again.",
        before="fetch: {kind: Url, url: https://example.org/a.csv}",
        after="fetch: {kind: Url, url: https://example.org/b.csv}",
        ways=("tell the readers of {dataset}",),
    ),
    Rule(
        code="ODF108",
        name="read-changed",
        title="the same bytes are read as other values",
        change=ChangeClass.RESTATING,
        severity=Severity.WARN,
        explanation="Another format or other options, such as the separator, the word for null or "
        "the form of dates. Rows to come may hold other values than such rows held so far.",
        before="read: {kind: Csv, header: true, nullValue: ''}",
        after="read: {kind: Csv, header: true, nullValue: 'n/a'}",
        ways=("tell the readers of {dataset}",),
    ),
    Rule(
        code="ODF109",
        name="preparation-changed",
        title="the bytes are prepared in another way before they are read",
        change=ChangeClass.RESTATING,
        severity=Severity.WARN,
        explanation="What unpacks or filters a file decides which rows there are to read.",
        before="prepare: [{kind: Decompress, format: Gzip}]",
        after="prepare: [{kind: Decompress, format: Zip, subPath: a.csv}]",
        ways=("tell the readers of {dataset}",),
    ),
    Rule(
        code="ODF110",
        name="preprocess-changed",
        title="another query shapes the rows before they are merged",
        change=ChangeClass.RESTATING,
        severity=Severity.WARN,
        explanation="Rows that were merged stay as they are; rows to come are made by the new "
        "query. If the columns change, ODF2xx say so as well.",
        before="preprocess: {kind: Sql, engine: spark, query: select id, price from input}",
        after="preprocess: {kind: Sql, engine: spark, query: select id, price / 100 as price "
        "from input}",
        ways=("publish the new form as {dataset}.v2",),
    ),
    Rule(
        code="ODF111",
        name="licence-changed",
        title="the data is under another licence",
        change=ChangeClass.METADATA,
        severity=Severity.WARN,
        explanation="No value changes, but what readers may do with them does.",
        before="- kind: SetLicense\n  shortName: CC-BY",
        after="- kind: SetLicense\n  shortName: Proprietary",
        ways=("tell the readers of {dataset}",),
    ),
    Rule(
        code="ODF112",
        name="licence-removed",
        title="the definition no longer names a licence",
        change=ChangeClass.METADATA,
        severity=Severity.WARN,
        explanation="A chain cannot take a licence back: the one in force goes on. So this is told "
        "where two revisions are compared; a plan for a workspace has nothing to append.",
        before="- kind: SetLicense\n  shortName: CC-BY",
        after="(no SetLicense)",
        ways=("put the SetLicense event back",),
    ),
    Rule(
        code="ODF113",
        name="info-changed",
        title="the description or the keywords changed",
        change=ChangeClass.METADATA,
        severity=Severity.OFF,
        explanation="Nothing that a query could see changes.",
        before="- kind: SetInfo\n  description: Rates",
        after="- kind: SetInfo\n  description: Exchange rates",
        ways=("nothing has to be done",),
    ),
    Rule(
        code="ODF114",
        name="attachments-changed",
        title="the attached documents changed",
        change=ChangeClass.METADATA,
        severity=Severity.OFF,
        explanation="Nothing that a query could see changes.",
        before="- kind: SetAttachments\n  attachments: {kind: Embedded, items: [...]}",
        after="(no SetAttachments)",
        ways=("nothing has to be done",),
    ),
    Rule(
        code="ODF115",
        name="dataset-retired",
        title="a dataset is no longer declared",
        change=ChangeClass.RETIRE,
        severity=Severity.ERROR,
        explanation="Between two revisions the definition went away. In a workspace nothing is "
        "deleted, and a chain may also have been copied there: then it is only noted, and warned "
        "of while a declared dataset still reads it. `gates: {ODF115: error}` refuses that.",
        before="datasets/rates.yaml",
        after="(no such file)",
        ways=("declare it again", "remove what reads it, too"),
    ),
    Rule(
        code="ODF116",
        name="dataset-renamed",
        title="a dataset went and one like it came under another name",
        change=ChangeClass.RETIRE,
        severity=Severity.ERROR,
        explanation="Without a `moved:` entry the new name starts a new chain, all is computed "
        "again, and the history stays behind under the old name. With it, the chain goes on.",
        before="name: org.example.rates",
        after="name: org.example.exchange-rates",
        ways=(
            "moved: [{{from: {dataset}, to: {other}}}] in odfbuild.yaml",
            "odfbuild mv {dataset} {other}",
        ),
    ),
)

INPUTS = (
    Rule(
        code="ODF117",
        name="input-added",
        title="a derivative dataset reads one more dataset",
        change=ChangeClass.RESTATING,
        severity=Severity.WARN,
        explanation="Rows to come are made from more than the rows so far. The watermark follows "
        "the slowest input, so the new one can hold it back.",
        before="inputs: [{datasetRef: trades}]",
        after="inputs: [{datasetRef: trades}, {datasetRef: rates}]",
        ways=("publish the new form as {dataset}.v2",),
    ),
    Rule(
        code="ODF118",
        name="input-removed",
        title="a derivative dataset no longer reads a dataset",
        change=ChangeClass.BREAKING,
        severity=Severity.ERROR,
        explanation="Rows made from it stay, and nothing corrects them any more when that dataset "
        "corrects its own; `on_query_change: restate` takes them back.",
        before="inputs: [{datasetRef: trades}, {datasetRef: rates}]",
        after="inputs: [{datasetRef: trades}]",
        ways=("keep the input {other}", "publish the new form as {dataset}.v2"),
    ),
    Rule(
        code="ODF119",
        name="inputs-reordered",
        title="the inputs are named in another order",
        change=ChangeClass.DATA_ONLY,
        severity=Severity.OFF,
        explanation="The order of inputs decides the order of rows that come in one step, hence "
        "their offsets; their values stay the same.",
        before="inputs: [{datasetRef: trades}, {datasetRef: rates}]",
        after="inputs: [{datasetRef: rates}, {datasetRef: trades}]",
        ways=("nothing has to be done",),
    ),
    Rule(
        code="ODF120",
        name="input-alias-changed",
        title="the query calls an input by another name",
        change=ChangeClass.METADATA,
        severity=Severity.OFF,
        explanation="The name and its uses in the query changed together, so the result is the "
        "same.",
        before="inputs: [{datasetRef: trades}]\nquery: select id from trades",
        after="inputs: [{datasetRef: trades, alias: t}]\nquery: select id from t",
        ways=("nothing has to be done",),
    ),
    Rule(
        code="ODF121",
        name="source-added",
        title="the dataset gets one more source",
        change=ChangeClass.DATA_ONLY,
        severity=Severity.OFF,
        explanation="Rows may now come from there, too.",
        before="(no AddPushSource)",
        after="- kind: AddPushSource\n  sourceName: manual",
        ways=("nothing has to be done",),
    ),
)
