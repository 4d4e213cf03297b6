"""Rows on the page of a plan: those that changed queries make otherwise."""

import re
from pathlib import Path

import pytest

from tests.cli.page.parsed import parse
from tests.support.process.inside import lay_out
from tests.support.projects import odfbuild
from tests.support.projects.texts import derivative, root

HOSTILE = "<script>hostile()</script>"
OLD = "select t, k, v from src"
_RESULT = re.compile(
    r'<tr class="(?:added|removed)"><th scope="row"><b[^>]*>([-+])</b>(.*?)</tr>', re.S
)
NEW = "select t, k, v + 1 as v from src where v > 10"


def _derived(query: str) -> str:
    return derivative(query=f'"{query}"', engine="datafusion")


@pytest.fixture
def planned(tmp_path: Path) -> Path:
    """Return a project with 30 rows, and a plan by which a query changes."""
    lines = [f"2024-01-01,k{number},{number}" for number in range(1, 30)]
    folder = lay_out(
        tmp_path / "project",
        {
            "odfbuild.yaml": "odfbuild: 1\nengine: {ingest: arrow}\n",
            "datasets/src.yaml": root(),
            "datasets/out.yaml": _derived(OLD),
            "data/1.csv": "\n".join(["t,k,v", *lines, f'2024-01-01,"{HOSTILE}",30', ""]),
        },
    )
    assert odfbuild("apply", "--yes", cwd=folder).code == 0
    lay_out(folder, {"datasets/out.yaml": _derived(NEW)})
    planned = odfbuild("plan", "--out", "plan.json", cwd=folder)
    assert (folder / "plan.json").exists(), planned.err
    return folder


def test_the_page_shows_rows_that_go_and_come(planned: Path) -> None:
    done = odfbuild("docs", "build", "--plan", "plan.json", "--data-diff", "100", cwd=planned)
    assert done.code == 0, done.err
    page = (planned / "catalogue.html").read_text("ascii")
    found = parse(page)
    said = " ".join(found.text("p").split())
    assert (
        "Over the newest 30 rows of the inputs, 30 rows go, which only the query in force gives, "
        "and 20 come, which only the new one gives." in said
    )
    assert "Not listed: 10 more." in said
    assert HOSTILE in found.text("td")
    assert HOSTILE not in page


def test_rows_that_differ_in_new_and_removed_columns_are_next_to_each_other(planned: Path) -> None:
    lay_out(
        planned,
        {
            "datasets/out.yaml": _derived(
                "select t, k, v * 2 as w, cast(t as timestamp) as at from src"
            )
        },
    )
    odfbuild("plan", "--out", "plan.json", cwd=planned)
    done = odfbuild("docs", "build", "--plan", "plan.json", "--data-diff", "5", cwd=planned)
    assert done.code == 0, done.err
    rows = _RESULT.findall((planned / "catalogue.html").read_text("ascii"))
    assert [sign for sign, _ in rows] == ["-", "+"] * 5
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row) for _, row in rows]
    for gone, come in zip(cells[::2], cells[1::2], strict=True):
        assert gone[:2] == come[:2]
        assert (gone[3:], come[2]) == (["", ""], "")
        assert int(come[3]) == 2 * int(gone[2])
        assert come[4].removesuffix("Z") == "2024-01-01T00:00:00.000"


def test_a_null_is_no_text(planned: Path) -> None:
    lay_out(planned, {"datasets/out.yaml": _derived("select t, 'null' as k, v from src")})
    odfbuild("plan", "--out", "plan.json", cwd=planned)
    done = odfbuild("docs", "build", "--plan", "plan.json", "--data-diff", "1", cwd=planned)
    assert done.code == 0, done.err
    page = (planned / "catalogue.html").read_text("ascii")
    assert "&#34;null&#34;" in page


def test_without_it_no_row_is_in_the_page(planned: Path) -> None:
    assert odfbuild("docs", "build", "--plan", "plan.json", cwd=planned).code == 0
    page = (planned / "catalogue.html").read_text("ascii")
    assert "hostile" not in page
    assert "of the newest" not in parse(page).text("p").lower()


def test_rows_of_a_plan_that_is_stale_or_missing_are_refused(planned: Path) -> None:
    alone = odfbuild("docs", "build", "--data-diff", "5", cwd=planned)
    assert (alone.code, "add --plan FILE" in alone.err) == (64, True)
    lay_out(planned, {"data/2.csv": "t,k,v\n2024-01-02,z,99\n"})
    assert odfbuild("apply", "--yes", "src", cwd=planned).code == 0
    lay_out(planned, {"datasets/out.yaml": _derived(OLD)})
    assert odfbuild("apply", "--yes", "out", cwd=planned).code == 0
    stale = odfbuild("docs", "build", "--plan", "plan.json", "--data-diff", "5", cwd=planned)
    assert (stale.code, "make the plan again" in stale.err) == (64, True)
