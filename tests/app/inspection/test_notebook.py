"""Datasets as a notebook shows them."""

from xml.etree import ElementTree

import pytest

import odfbuild
from odfbuild.app.inspection.notebook import DatasetPage
from tests.app.inspection import HOSTILE


def test_a_dataset_says_what_it_is(project: odfbuild.DataProject) -> None:
    log = project.dataset("log")
    assert repr(log) == "<Root dataset log, 3 records>"
    assert (log.inputs, log.readers) == ((), ("copy",))
    assert project.dataset("COPY").name == "copy"
    assert project.dataset("copy").inputs == ("log",)
    assert log.schema.names == ["t", "k", "v"]
    assert log.history().column("event").to_pylist()[0] == "Seed"
    assert log.history().column("block").to_pylist()[-1] == log.head
    assert sum(log.history().column("records").to_pylist()) == log.records


def test_its_page_is_well_formed_and_holds_no_markup_of_others(
    project: odfbuild.DataProject,
) -> None:
    page = project.dataset("copy")._repr_html_()
    tree = ElementTree.fromstring(page.replace("<br>", "<br/>"))  # noqa: S314 - of our own
    kinds = {each.tag.rpartition("}")[2] for each in tree.iter()}
    assert not kinds & {"img", "script", "style", "link", "a"}
    assert HOSTILE in "".join(tree.itertext())
    assert ["".join(each.itertext()) for each in tree.iter("th")] == [
        "tdate32[day]", "kstring", "vint64",
    ]  # fmt: skip
    boxes = [each.text for each in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert boxes == ["log", "copy"]


def test_a_dataset_alone_has_no_picture(project: odfbuild.DataProject) -> None:
    assert "<svg" not in project.dataset("acme.stock")._repr_html_()


@pytest.mark.parametrize(("inputs", "readers"), [(0, 60), (60, 0), (30, 30), (20, 20), (21, 3)])
def test_what_the_picture_leaves_out_is_counted(inputs: int, readers: int) -> None:
    edges: dict[str, tuple[str, ...]] = {f"in{n}": () for n in range(inputs)}
    edges |= {"x": tuple(edges), **{f"out{n}": ("x",) for n in range(readers)}}
    page = DatasetPage(name="x", facts=(), description=None, columns={}, rows=(), edges=edges)
    tree = ElementTree.fromstring(page.html())  # noqa: S314 - of our own
    boxes = [each.text or "" for each in tree.iter("{http://www.w3.org/2000/svg}text")]
    says = "".join(tree.itertext())
    for beginning, count, side in (("in", inputs, "before"), ("out", readers, "after")):
        shown = sum(each.startswith(beginning) for each in boxes)
        assert shown == min(count, 20)
        assert (f"{count - shown} {side} it" in says) == (shown < count)
    assert ("Not in the picture" in says) == (max(inputs, readers) > 20)
