"""Every command that the README shows is run, in its order, as a new user would."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.projects import REPOSITORY, odfbuild, shell

README = REPOSITORY / "README.md"
LINK = re.compile(r"\]\((?!https?://)([^)#]+)[^)]*\)")


BEGIN = "## Ten minutes"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```\n", re.M | re.S)
HEREDOC = re.compile(r"<<'?(\w+)'?$")


@dataclass(frozen=True, slots=True)
class Shown:
    """A command of a block that can be pasted, and the lines that are shown as its output."""

    line: int
    command: str
    output: tuple[str, ...]


def commands(text: str, heading: str = "# ") -> Iterator[Shown]:
    """Yield the commands of `sh` blocks below a heading.

    A `text` block just below one is the output of its last command.
    """
    begin = text.index(heading)
    blocks = list(BLOCK.finditer(text, begin))
    for at, block in enumerate(blocks):
        if block[1] != "sh":
            continue
        after = blocks[at + 1] if at + 1 < len(blocks) else None
        below = after is not None and not text[block.end() : after.start()].strip()
        output = after[2] if after is not None and below and after[1] == "text" else ""
        *before, last = whole_commands(block[2].splitlines())
        line = text.count("\n", 0, block.start()) + 2
        yield from (Shown(line, each, ()) for each in before)
        yield Shown(line, last, tuple(output.splitlines()))


def whole_commands(lines: list[str]) -> Iterator[str]:
    """Yield the commands of a shell's lines: one a line, or up to the end of its document."""
    rest = iter(lines)
    for line in rest:
        assert not line.startswith(("$ ", "> ")), f"a shell does not take {line!r}"
        command = [line]
        if (end := HEREDOC.search(line)) is not None:
            for more in rest:
                command.append(more)
                if more == end[1]:
                    break
        yield "\n".join(command)


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


@pytest.fixture
def stays() -> Iterator[Callable[[Path], None]]:
    """Give what starts an engine that stays in a project: its commands start none of their own."""
    with ExitStack() as engines:

        def start(project: Path) -> None:
            assert odfbuild("engine", "start", cwd=project).code == 0
            engines.callback(odfbuild, "engine", "stop", cwd=project)

        yield start


@pytest.mark.spark
def test_every_command_of_the_readme_does_what_it_shows(
    stays: Callable[[Path], None], tmp_path: Path
) -> None:
    folder = tmp_path
    shown = list(commands(README.read_text("utf-8"), BEGIN))
    assert len(shown) > 5
    for step in shown:
        place = f"README.md:{step.line}: {step.command}"
        if step.command.startswith("cd "):
            folder = folder / step.command[3:]
            assert folder.is_dir(), place
            stays(folder)
            continue
        done = shell(step.command, folder)
        refused = any("error[" in line for line in step.output)
        gated = any("(exit 3)" in line for line in step.output)
        code = 1 if refused else 3 if gated else 0
        assert done.code == code, f"{place}\n{done.out}{done.err}"
        if step.output:
            printed = (refused and done.err) or done.out
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
