"""odfbuild accept: one finding of one dataset, in the project file, until a day."""

from pathlib import Path

import pytest

from odfbuild.project.config.project_file import load_config
from tests.support.process.inside import lay_out
from tests.support.process.within import Within
from tests.support.projects import REPOSITORY

TODAY = "2031-01-31"
PROJECT = """\
# the shop
odfbuild: 1
accept:   # agreed
  - code: ODF201
    dataset: shop.orders
    column: total   # in cents before
    until: 2031-01-30
    reason: nobody reads it
"""


@pytest.fixture
def within(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Within:
    template = REPOSITORY / "project_template" / "minimal" / "datasets"
    files = {f"datasets/{each.name}": each.read_bytes() for each in template.glob("*.yaml")}
    lay_out(tmp_path, {"odfbuild.yaml": PROJECT, **files})
    monkeypatch.setenv("ODFBUILD_TODAY", TODAY)
    return Within(tmp_path, capfd, monkeypatch)


def settings(within: Within) -> str:
    return (within.folder / "odfbuild.yaml").read_text("utf-8")


def test_it_is_written_for_ninety_days(within: Within) -> None:
    said = within.done("accept", "ODF202", "SHOP.items", "--column", "item", "--reason", "new: it")
    assert settings(within) == PROJECT + (
        "  - code: ODF202\n    dataset: shop.items\n    column: item\n    until: 2031-05-01\n"
        "    reason: 'new: it'\n"
    )
    assert "until 2031-05-01" in said


def test_the_project_reads_what_was_written(within: Within) -> None:
    within.done("accept", "column-removed", "shop.items", "--until", "2031-01-31")
    last = load_config(within.folder).accepted[-1]
    assert (last.code, str(last.dataset), last.column) == ("ODF201", "shop.items", None)
    assert str(last.until) == "2031-01-31"


def test_one_that_ran_out_is_renewed_where_it_stands(within: Within) -> None:
    within.done("accept", "odf201", "shop.orders", "--column", "total")
    assert settings(within) == PROJECT.replace("2031-01-30", "2031-05-01")


def test_one_that_holds_stays(within: Within) -> None:
    within.done("accept", "ODF201", "shop.orders", "--column", "total")
    before = settings(within)
    said = within.done("accept", "ODF201", "shop.orders", "--column", "total")
    assert "already, until 2031-05-01" in said
    assert settings(within) == before


def test_a_reason_alone_does_not_prolong(within: Within) -> None:
    within.done("accept", "ODF201", "shop.orders", "--column", "total", "--until", "2031-02-01")
    within.done("accept", "ODF201", "shop.orders", "--column", "total", "--reason", "other")
    assert settings(within) == PROJECT.replace("2031-01-30", "2031-02-01").replace(
        "nobody reads it", "other"
    )


@pytest.mark.parametrize(
    ("arguments", "code", "error", "help"),
    [
        (["ODF2011", "shop.items"], 1, "unknown-rule", "ODF201"),
        (["ODF201", "shop.item"], 1, "unknown-dataset", "shop.items"),
        (["ODF201", "shop items"], 1, "invalid-name", ""),
        (["ODF201", "shop.items", "--until", "2031-01-30"], 64, "usage", "2031-05-01"),
        (["ODF201", "shop.items", "--until", "soon"], 64, "usage", "2031-05-01"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_a_way_out(
    within: Within, arguments: list[str], code: int, error: str, help: str
) -> None:
    done = within("accept", *arguments)
    assert done.code == code
    assert f"error[{error}]" in done.err
    assert help in done.err
    assert settings(within) == PROJECT


def test_a_dataset_that_retires_need_not_be_declared(within: Within) -> None:
    within.done("accept", "ODF115", "shop.gone")
    assert str(load_config(within.folder).accepted[-1].dataset) == "shop.gone"


def test_a_file_that_cannot_be_edited_stays(within: Within) -> None:
    repeated = "vars: {day: {type: date, default: &day 2031-01-30}}\n"
    odd = PROJECT.replace("accept:", f"{repeated}accept:").replace(
        "until: 2031-01-30", "until: *day"
    )
    (within.folder / "odfbuild.yaml").write_text(odd)
    done = within("accept", "ODF201", "shop.orders", "--column", "total")
    assert done.code == 1
    assert "error[unusual-layout]" in done.err
    assert settings(within) == odd
