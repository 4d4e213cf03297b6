"""Datasets as a notebook shows them."""

import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

import odfbuild
from odfbuild.app.inspection.notebook import DatasetPage, ProjectPage
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


def test_a_project_says_what_is_in_it(project: odfbuild.DataProject) -> None:
    assert repr(project) == f"<Project {project.root.name}, target dev, 3 datasets>"
    page = project._repr_html_()
    tree = ElementTree.fromstring(page.replace("<br>", "<br/>"))  # noqa: S314 - of our own
    rows = [["".join(cell.itertext()) for cell in row] for row in tree.iter("tr")]
    assert rows[0] == ["dataset", "kind", "records", "watermark", "description"]
    assert [row[:3] for row in rows[1:]] == [
        [name, project.dataset(name).kind.lower(), str(project.dataset(name).records)]
        for name in ("acme.stock", "copy", "log")
    ]
    boxes = {
        "".join(each.itertext()).partition("\n")[0]: each
        for each in tree.iter("{http://www.w3.org/2000/svg}g")
    }
    assert len(boxes) == 3
    assert len(list(tree.iter("{http://www.w3.org/2000/svg}path"))) == 1


def test_a_damaged_dataset_is_in_the_list_of_its_project(built: Path, tmp_path: Path) -> None:
    folder = tmp_path / "p"
    shutil.copytree(built, folder)
    project = odfbuild.open_project(folder)
    head = project.dataset("copy").head
    found = [each for each in folder.rglob(head) if each.is_file()]
    assert found
    for each in found:
        each.write_bytes(b"")
    project = odfbuild.open_project(folder)
    assert "<svg" not in project.dataset("log")._repr_html_()
    assert project.dataset("log").inputs == ()
    page = project._repr_html_()
    assert "<td>copy</td><td>damaged</td>" in page
    assert "<td>log</td><td>root</td>" in page


@pytest.mark.parametrize("count", [2, 200])
def test_a_large_project_is_listed_in_part(count: int) -> None:
    edges = {f"d{n:03d}": () if n == 0 else (f"d{n - 1:03d}",) for n in range(count)}
    page = ProjectPage(
        name="p<b>", facts=(), more=count - 2, edges=edges,
        datasets=dict.fromkeys(list(edges)[:2], ("root", "1", "", "<i>x</i>")),
    ).html()  # fmt: skip
    assert "<i>" not in page
    assert "p<b>" not in page
    assert ("more; names() lists all" in page) == (count > 2)


def test_datasets_in_a_circle_are_drawn() -> None:
    page = ProjectPage(
        name="p", facts=(), datasets={}, more=0, edges={"a": ("b",), "b": ("a",), "c": ("c",)}
    )
    assert page.html().count("<rect") == 3


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
