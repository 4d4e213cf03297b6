"""odfbuild help: what a rule, the code of an error or the exit codes mean."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from textwrap import shorten, wrap
from typing import Annotated

import typer

from odfbuild.cli import exits
from odfbuild.cli.files import packaged
from odfbuild.planner.evolution.rules.catalogue import catalogue, find_rule
from odfbuild.planner.evolution.rules.page import rule_list, rule_text
from odfbuild.texts.suggest import did_you_mean
from odfbuild.values import dataclass

_PAGE = "docs/errors.md"
_ROW = re.compile(r"\| (`[a-z][a-z0-9-]*`(?:, `[a-z][a-z0-9-]*`)*) \| (.+) \|")
_CODE = re.compile(r"`([a-z0-9-]+)`")
_LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")
_OTHERS = "While working"


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """A code, where it is met, and all that may be meant by it."""

    code: str
    where: str
    meanings: tuple[str, ...]


def error_codes() -> Mapping[str, ErrorCode]:
    """Return all codes by name."""
    found: dict[str, ErrorCode] = {}
    for where, code, meaning in _rows(packaged(_PAGE).read_text("utf-8")):
        known = found.get(code)
        before = () if known is None else known.meanings
        found[code] = ErrorCode(code, where if known is None else known.where, (*before, meaning))
    return found


def _rows(page: str) -> Iterator[tuple[str, str, str]]:
    where = _OTHERS
    for line in page.splitlines():
        if line.startswith("## "):
            where = line.removeprefix("## ")
        elif (row := _ROW.fullmatch(line)) is not None:
            meaning = _LINK.sub(r"\1 (docs/\2)", row[2])
            for code in _CODE.findall(row[1]):
                yield where, code, meaning


EXIT_CODES = """\
0        success, with or without changes
1        an error: an invalid project, a failure of engine or network; nothing was committed
2        there are changes (only with --detailed-exitcode), or drift
3        refused: a finding that is not accepted, a lock file out of date, or --check found changes
4        partly applied: some was committed, some failed or was skipped
5        the plan is stale, or a head moved: nothing was committed for those datasets
6        another process holds the lock
7        tests or verification failed
64       wrong command line
130      interrupted; no step is left half done
129/143  ended by SIGHUP or SIGTERM, as by ^C: 128 plus the number of the signal
"""
_TOPICS = (
    "odfbuild help ODF201 explains a rule, odfbuild help unknown-input the code of an error,\n"
    "odfbuild help codes lists all codes, odfbuild help exit-codes the exit codes.\n"
)
_WIDTH = 100
_CODE_WIDTH = 26


def help_(
    context: typer.Context,
    topic: Annotated[
        str | None,
        typer.Argument(
            metavar="[CODE|codes|exit-codes]",
            help="A rule such as ODF201, an error code, a command, or a list. Default: the list "
            "of rules.",
        ),
    ] = None,
) -> int:
    """Explain a rule of the gate, an error, or the exit codes."""
    if topic is None:
        sys.stdout.write(f"{_TOPICS}\n{rule_list()}")
        return exits.DONE
    if topic.strip().lower() in ("exit-codes", "exit codes", "exits"):
        sys.stdout.write(EXIT_CODES)
        return exits.DONE
    rule = find_rule(topic)
    if rule is not None:
        sys.stdout.write(rule_text(rule))
        return exits.DONE
    codes = error_codes()
    if topic.strip().lower() == "codes":
        sys.stdout.write("".join(map(_code_line, codes.values())))
        return exits.DONE
    code = codes.get(topic.strip().lower().removeprefix("error[").removesuffix("]"))
    if code is not None:
        sys.stdout.write(_code_text(code))
        return exits.DONE
    text = _command_help(context, topic.strip().lower())
    if text is not None:
        sys.stdout.write(f"{text}\n")
        return exits.DONE
    names = [*catalogue(), *(each.name for each in catalogue().values()), *codes]
    names += ["codes", "exit-codes"]
    guess = did_you_mean(topic, names)
    sys.stderr.write(
        f"odfbuild: there is no rule or code {topic!r}"
        + (f"; {guess}" if guess else "")
        + f"\n{_TOPICS}\n{EXIT_CODES}\n{rule_list()}"
    )
    return exits.USAGE


def _command_help(context: typer.Context, name: str) -> str | None:
    """Return the help of a command, None if there is no such command."""
    root = context.find_root()
    known = getattr(root.command, "commands", {}).get(name)
    if known is None:
        return None
    with known.make_context(name, [], parent=root, resilient_parsing=True) as own:
        return str(own.get_help())


def _code_text(code: ErrorCode) -> str:
    """Return what a code means; where it is printed, why and the way out are beside it."""
    lines = [f"{code.code}  ({code.where[0].lower()}{code.where[1:]})"]
    for meaning in code.meanings:
        lines += wrap(meaning, _WIDTH, initial_indent="  ", subsequent_indent="  ")
    lines.append("The printed error has `why`, the reason, and `fix`, the remedy.")
    return "\n".join(lines) + "\n"


def _code_line(code: ErrorCode) -> str:
    meaning = shorten(code.meanings[0], _WIDTH - _CODE_WIDTH, placeholder="...")
    return f"{code.code:<{_CODE_WIDTH - 2}}  {meaning}\n"
