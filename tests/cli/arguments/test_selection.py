"""Selectors in the commands that look at the workspace: status and verify."""

import pytest

from tests.support.process.inside import Inside, lay_out
from tests.support.projects.market import dataset


def rows(ask: Inside, command: str, *arguments: str) -> list[str]:
    done = ask(command, *arguments)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    return [line.split()[0] for line in lines[2 if command == "status" else 0 : -1]]


@pytest.mark.parametrize("command", ["status", "verify"])
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "out report src acme/side"),
        (["SRC"], "src"),
        (["out", "src"], "out src"),
        (["src+"], "out report src"),
        (["+out", "acme/*"], "out src acme/side"),
        (["tag:raw"], "src acme/side"),
        (["nightly"], "out src acme/side"),
        (["--exclude", "kind:root"], "out report"),
        (["src+", "--exclude", "report"], "out src"),
    ],
    ids=str,
)
def test_selectors_choose_what_is_looked_at(
    ask: Inside, command: str, arguments: list[str], expected: str
) -> None:
    assert rows(ask, command, *arguments) == expected.split()


def test_datasets_of_the_workspace_alone_can_be_selected(ask: Inside) -> None:
    lay_out(ask.project, {"datasets/report.yaml": None, "odfbuild.yaml": "odfbuild: 1\n"})
    assert rows(ask, "status", "out+") == ["out", "report"]
    assert rows(ask, "verify", "report") == ["report"]


@pytest.mark.parametrize("command", ["status", "verify"])
def test_names_need_no_definitions(ask: Inside, command: str) -> None:
    lay_out(ask.project, {"datasets/out.yaml": "{"})
    assert rows(ask, command, "s*", "OUT") == ["out", "src"]
    done = ask(command, "scr")
    assert done.code == 1
    assert "error[unknown-dataset]: no dataset named 'scr'" in done.err
    assert "did you mean 'src'?" in done.err


def test_what_was_not_selected_is_not_verified(ask: Inside) -> None:
    dataset(ask.project, "out").slices()[0][1].unlink()
    assert ask("verify", "src", "report").code == 0
    assert ask("verify", "+out").code == 7
