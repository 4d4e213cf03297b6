"""ODF117 to ODF121: rules on what datasets are fed from."""

from odfbuild.planner.changes import ChangeClass
from odfbuild.planner.evolution.rule import Rule
from odfbuild.planner.policy import Severity

__all__ = ["INPUTS"]

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
