"""odfbuild explain: why a dataset will or will not run."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.process.inside import Inside, lay_out
from tests.support.projects import REPOSITORY
from tests.support.projects.market import FILES, steady
from tests.support.projects.texts import GOOD, derivative, root, url
from tests.support.servers.http import serving

Golden = Callable[[Path, str], None]
GOLDEN = REPOSITORY / "tests" / "golden" / "look"
CHANGED = derivative(query="select t, k, v * 2 as v, 1 as n from src where v > 0")
NEWS = "t,k,v\n2024-01-03,c,3\n"


def explained(ask: Inside, name: str) -> str:
    done = ask("explain", name)
    assert (done.code, done.err) == (0, "")
    return steady(done.out)


def test_a_dataset_with_nothing_to_do_says_so_with_the_facts(ask: Inside, golden: Golden) -> None:
    golden(GOLDEN / "explain-idle-root.txt", explained(ask, "src"))
    golden(GOLDEN / "explain-idle.txt", explained(ask, "out"))


def test_a_cause_is_followed_up_to_the_file_that_it_began_with(ask: Inside, golden: Golden) -> None:
    lay_out(ask.project, {"data/2.csv": NEWS})
    golden(GOLDEN / "explain-news.txt", explained(ask, "report"))
    assert "ingest: 1 new file: 2.csv" in explained(ask, "src")


def test_another_definition_is_shown_line_by_line(ask: Inside, golden: Golden) -> None:
    lay_out(ask.project, {"datasets/out.yaml": CHANGED, "data/2.csv": NEWS})
    golden(GOLDEN / "explain-changed.txt", explained(ask, "out"))


def test_a_dataset_that_is_not_created_yet_names_what_it_waits_for(
    ask: Inside, golden: Golden
) -> None:
    lay_out(
        ask.project,
        {
            "datasets/late.yaml": derivative("late", "later"),
            "datasets/later.yaml": root("later", fetch="{kind: FilesGlob, path: later/*.csv}"),
        },
    )
    golden(GOLDEN / "explain-new.txt", explained(ask, "late"))


def test_a_source_that_has_to_be_asked_is_named_without_its_secrets(ask: Inside) -> None:
    lay_out(
        ask.project, {"datasets/far.yaml": root("far", fetch=url("https://u:pw@x.invalid/a?key=b"))}
    )
    text = explained(ask, "far")
    assert "Source\n  https://x.invalid/a has to be checked\n" in text
    assert "pw" not in text
    assert "key" not in text.replace("primaryKey", "")


def test_a_source_that_was_read_may_have_news_or_not(ask: Inside) -> None:
    with serving() as server:
        where = server.put_file("/a.csv", GOOD.encode(), changed=1_700_000_000.0)
        lay_out(ask.project, {"datasets/far.yaml": root("far", fetch=url(where))})
        assert ask("apply", "--yes", "--no-progress").code == 0
        text = explained(ask, "far")
    assert (
        "\nIt runs only if there is new data, for which the source has to be checked.\n"
    ) in text
    assert f"Why\n  ingest: {where} has to be checked\n" in text


def test_a_dataset_whose_input_was_rewritten_is_told_the_way_out(ask: Inside) -> None:
    assert ask("compact", "out", "--keep-metadata-only", "--yes").code == 0
    text = explained(ask, "report")
    assert "It cannot run: an input no longer has the block that was read last.\n" in text
    assert "To rebuild its data: odfbuild rebuild report --downstream\n" in text
    assert "  out as src  rewritten since: it no longer has the block that was read last\n" in text
    assert "odfbuild rebuild" not in explained(ask, "out")


def test_a_dataset_of_the_workspace_alone_will_not_run(ask: Inside) -> None:
    lay_out(ask.project, {"datasets/report.yaml": None, "odfbuild.yaml": "odfbuild: 1\n"})
    text = explained(ask, "REPORT")
    assert text.startswith(
        "report  (derivative, in the workspace only)\n\n"
        "It will not run: no definition in this project declares it.\n"
    )
    assert "Inputs\n  out as src  read up to offset 1, is at 1: nothing new" in text


def test_an_input_with_more_than_was_read_says_how_much(ask: Inside) -> None:
    lay_out(ask.project, {"datasets/report.yaml": None, "odfbuild.yaml": "odfbuild: 1\n"})
    lay_out(ask.project, {"data/2.csv": NEWS})
    assert ask("apply", "--yes", "--no-progress").code == 0
    lay_out(ask.project, {name: FILES[name] for name in ("datasets/report.yaml", "odfbuild.yaml")})
    text = explained(ask, "report")
    assert "It will run its query.\n" in text
    assert "  transform: src has 1 new record\n" in text
    assert "  out as src  read up to offset 1, is at 2: 1 new record, watermark" in text


@pytest.mark.parametrize("name", ["reprt", "nobody"])
def test_an_unknown_name_is_an_error_with_a_guess(ask: Inside, name: str) -> None:
    done = ask("explain", name)
    assert done.code == 1
    assert f"error[unknown-dataset]: no dataset named '{name}'" in done.err
    assert ("did you mean 'report'?" in done.err) == (name == "reprt")


def test_a_source_that_is_not_there_is_no_new_file(ask: Inside) -> None:
    lay_out(
        ask.project, {"datasets/far.yaml": root("far", fetch="{kind: FilesGlob, path: no/x.csv}")}
    )
    assert "Source\n  no file to read yet: no/x.csv\n" in explained(ask, "far")
