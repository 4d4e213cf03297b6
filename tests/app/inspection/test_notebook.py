"""Datasets as a notebook shows them."""

from xml.etree import ElementTree

import odfbuild
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
