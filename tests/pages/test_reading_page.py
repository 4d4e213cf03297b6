"""The page about reading says what is so: its commands are run."""

from pathlib import Path

import pytest

from tests.pages.test_readme import commands, pattern
from tests.support.process.inside import lay_out, without_jvm
from tests.support.projects import REPOSITORY, shell
from tests.support.projects.texts import root

PAGE = (REPOSITORY / "docs" / "reading.md").read_text("utf-8")
MAY = (
    "day,item,price\n2024-05-01,bread,3.2\n2024-05-01,milk,1.1\n",
    "day,item,price\n2024-05-02,bread,3.4\n2024-05-02,salt,0.8\n",
)


def shop_in(folder: Path) -> Path:
    """Build the project of the page."""
    columns = "day DATE NOT NULL, item STRING NOT NULL, price DOUBLE"
    merge = "{kind: Snapshot, primaryKey: [item]}"
    prices = root("shop.prices", columns=columns, merge=merge)
    shop = lay_out(folder, {"datasets/prices.yaml": prices.replace("Column: t", "Column: day")})
    for number, text in enumerate(MAY):
        lay_out(shop, {f"data/{number}.csv": text})
        done = without_jvm("apply", "--yes", cwd=shop)
        assert done.code == 0, done.err
    return shop


@pytest.mark.spark
def test_the_page_about_reading_is_so(tmp_path: Path) -> None:
    shop = shop_in(tmp_path)
    shown = list(commands(PAGE))
    assert len(shown) == 8
    for step in shown:
        done = shell(step.command, shop)
        assert (done.code, done.err) == (0, "")
        assert pattern(step.output).fullmatch(done.out), done.out
