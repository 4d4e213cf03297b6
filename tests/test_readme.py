"""Every command that the README shows is run, in its order, as a new user would."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.projects import REPOSITORY, shell

README = REPOSITORY / "README.md"
LINK = re.compile(r"\]\((?!https?://)([^)#]+)[^)]*\)")


@dataclass(frozen=True, slots=True)
class Shown:
    """A command of a console block, and the lines that are shown as its output."""

    line: int
    command: str
    output: tuple[str, ...]


def blocks(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the console blocks: the number of the first line, and the lines."""
    lines = text.splitlines()
    inside: list[str] | None = None
    for number, line in enumerate(lines, start=1):
        if line == "```console":
            inside, start = [], number + 1
        elif line == "```" and inside is not None:
            yield start, inside
            inside = None
        elif inside is not None:
            inside.append(line)


def commands(text: str) -> Iterator[Shown]:
    """Yield what follows each `$ `; a line after `> ` goes on with the command before it."""
    for start, lines in blocks(text):
        at = 0
        while at < len(lines):
            assert lines[at].startswith("$ "), f"README.md:{start + at}: output without a command"
            number, command = start + at, [lines[at][2:]]
            at += 1
            while at < len(lines) and lines[at].startswith("> "):
                command.append(lines[at][2:])
                at += 1
            output = []
            while at < len(lines) and not lines[at].startswith("$ "):
                output.append(lines[at])
                at += 1
            yield Shown(number, "\n".join(command), tuple(output))


def pattern(output: tuple[str, ...]) -> re.Pattern[str]:
    """Return what the shown output matches: `...` is any text, or alone on a line any lines."""
    parts = []
    for line in output:
        if line.strip() == "...":
            parts.append(r"(?:.*\n)*?")
        else:
            words = [r"\s+".join(map(re.escape, p.split(" "))) for p in squeezed(line).split("...")]
            parts.append(".*?".join(words) + r"[ \t]*\n")
    return re.compile("".join(parts))


def squeezed(line: str) -> str:
    return re.sub(r"\s+", " ", line.rstrip())


@pytest.mark.spark
def test_every_command_of_the_readme_does_what_it_shows(tmp_path: Path) -> None:
    folder = tmp_path
    shown = list(commands(README.read_text("utf-8")))
    assert len(shown) > 5
    for step in shown:
        place = f"README.md:{step.line}: {step.command}"
        if step.command.startswith("cd "):
            folder = folder / step.command[3:]
            assert folder.is_dir(), place
            continue
        done = shell(step.command, folder)
        refused = any("error[" in line for line in step.output)
        gated = any("(exit 3)" in line for line in step.output)
        code = 1 if refused else 3 if gated else 0
        assert done.code == code, f"{place}\n{done.out}{done.err}"
        if step.output:
            printed = done.err if refused else done.out
            expected = pattern(step.output)
            assert expected.fullmatch(f"{printed.rstrip()}\n"), f"{place}\n{printed}"


@pytest.mark.parametrize(
    "page",
    [README, REPOSITORY / "CONTRIBUTING.md", *sorted((REPOSITORY / "docs").rglob("*.md"))],
    ids=lambda page: page.relative_to(REPOSITORY).as_posix(),
)
def test_links_to_files_lead_somewhere(page: Path) -> None:
    missing = [link for link in LINK.findall(page.read_text("utf-8")) if not at(page, link)]
    assert missing == []


def at(page: Path, link: str) -> bool:
    return (page.parent / link).exists()


def test_shown_output_is_compared_loosely_but_is_compared() -> None:
    shown = pattern(("a  ... c", "...", "end"))
    assert shown.fullmatch("a b   c\nx\ny\nend\n")
    assert not shown.fullmatch("a b\nend\n")
