"""Normal form: what a definition and a chain are compared in."""

import pytest

from odfbuild.errors import SourceSpan
from odfbuild.odf.events import (
    AddPushSource,
    DatasetKind,
    DatasetSnapshot,
    FetchStepFilesGlob,
    MergeStrategyAppend,
    MetadataEvent,
    ReadStepCsv,
    SetInfo,
    SetPollingSource,
    SetTransform,
    SqlQueryStep,
    TransformInput,
    TransformSql,
)
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared, PathSteps, normalize

SHORT = TransformSql(engine="spark", query="select 1")
LONG = TransformSql(engine="spark", queries=(SqlQueryStep(query="select 1"),))
ID = DatasetId(bytes(32))


def normal(event: MetadataEvent) -> MetadataEvent:
    snapshot = DatasetSnapshot(
        name=DatasetAlias.parse("a"), kind=DatasetKind.ROOT, metadata=(event,)
    )
    (result,) = normalize(snapshot).metadata
    return result


def transform(*inputs: TransformInput, by: TransformSql = SHORT) -> SetTransform:
    return SetTransform(inputs=inputs, transform=by)


def polling(preprocess: TransformSql | None) -> SetPollingSource:
    return SetPollingSource(
        fetch=FetchStepFilesGlob(path="*.csv"),
        read=ReadStepCsv(),
        preprocess=preprocess,
        merge=MergeStrategyAppend(),
    )


def pushed(preprocess: TransformSql | None) -> AddPushSource:
    return AddPushSource(
        source_name="s", read=ReadStepCsv(), preprocess=preprocess, merge=MergeStrategyAppend()
    )


def test_a_single_query_is_one_step() -> None:
    assert normal(transform()) == transform(by=LONG)


def test_a_preprocess_query_is_one_step_too() -> None:
    assert normal(polling(SHORT)) == polling(LONG)
    assert normal(pushed(SHORT)) == pushed(LONG)


def test_an_input_without_an_alias_is_called_as_it_is_referred_to() -> None:
    named = TransformInput(dataset_ref=DatasetAlias.parse("Org.Rates"))
    by_id = TransformInput(dataset_ref=ID)
    assert normal(transform(named, by_id)) == transform(
        TransformInput(dataset_ref=named.dataset_ref, alias="Org.Rates"),
        TransformInput(dataset_ref=ID, alias=str(ID)),
        by=LONG,
    )


def test_an_alias_that_is_given_is_kept() -> None:
    given = TransformInput(dataset_ref=ID, alias="rates")
    assert normal(transform(given)) == transform(given, by=LONG)


@pytest.mark.parametrize(
    "event",
    [
        polling(None),
        pushed(None),
        SetInfo(),
        SetInfo(keywords=()),
        transform(by=LONG),
        transform(by=TransformSql(engine="spark")),
        transform(by=TransformSql(engine="spark", queries=())),
    ],
)
def test_what_is_left_out_stays_left_out(event: MetadataEvent) -> None:
    assert normal(event) == event


def test_the_normal_form_of_a_normal_form_is_itself() -> None:
    once = normal(transform(TransformInput(dataset_ref=ID)))
    assert normal(once) == once


class Places:
    """Names each path, so that what is asked for can be seen."""

    def value(self, path: PathSteps) -> SourceSpan:
        return SourceSpan(file="/".join(map(str, path)), line=1)

    def key(self, path: PathSteps) -> SourceSpan:
        return SourceSpan(file="/".join(map(str, path)), line=2)

    def inside(self, path: PathSteps, text: str, offset: int, length: int = 1) -> SourceSpan:
        return SourceSpan(file=f"{'/'.join(map(str, path))} {text}", line=offset, length=length)


def declared(file: str) -> Declared:
    snapshot = DatasetSnapshot(name=DatasetAlias.parse("a"), kind=DatasetKind.ROOT, metadata=())
    return Declared(
        alias=snapshot.name,
        snapshot=snapshot,
        written=snapshot,
        file=file,
        document=0,
        places=Places(),
    )


def test_paths_of_a_snapshot_lead_below_the_content_of_its_manifest() -> None:
    each = declared("a.yaml")
    assert each.span(("metadata", 0)).file == "content/metadata/0"
    assert str(each.key_span(("kind",))) == "content/kind:2:1"
    assert each.span_inside(("x",), "text", 3, 4) == SourceSpan(
        file="content/x text", line=3, length=4
    )


def test_a_dataset_as_a_whole_is_shown_by_its_name() -> None:
    assert declared("a.yaml").span().file == "content/name"


def test_where_its_text_is_kept_makes_no_difference() -> None:
    assert declared("a.yaml") == declared("a.yaml")
    assert declared("a.yaml") != declared("b.yaml")
