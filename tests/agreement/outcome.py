"""What plan says of a project, what apply does with it, and whether that is the same."""

import contextlib
import io
import json
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from odfbuild.cli.main import main
from odfbuild.executors.engine.protocol import Engine
from odfbuild.executors.engine.spark import engine as spark
from tests.agreement.random_projects import Drawn
from tests.agreement.surroundings import Around
from tests.support.process.inside import lay_out
from tests.support.projects import Done

__all__ = ["Difference", "differences", "run_inside"]

_DATASET = re.compile(r"^datasets/(\w+)\.yaml:.*error\[([\w-]+)\]", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Difference:
    """A law that a project broke after so many changes, and what was printed."""

    law: str
    changes: tuple[str, ...]
    said: str = field(repr=False, default="")


def differences(
    seed: int, folder: Path, engine: Engine | None, *, rounds: int = 3, around: bool = False
) -> Iterator[Difference | str]:
    """Yield how each round of a project ended, and every law that it broke; None is Spark.

    `around` draws settings, templates, packages and inputs from a repository as well.
    """
    drawn = Around(seed, folder) if around else Drawn(seed)
    changes: list[str] = []
    instead = patch.object(spark, "SparkEngine", lambda *_, **__: engine)
    with contextlib.nullcontext() if engine is None else instead:
        for number in range(rounds):
            lay_out(folder, {k: v for k, v in drawn.laid_out().items() if v is not None})
            for name, content in drawn.laid_out().items():
                if content is None:
                    (folder / name).unlink(missing_ok=True)
            broken = False
            for found in _round(folder, drawn):
                yield (
                    found
                    if isinstance(found, str)
                    else Difference(found.law, tuple(changes), found.said)
                )
                broken |= isinstance(found, Difference)
            if broken or number == rounds - 1:
                break
            changes += [f"round {number + 1}:", *drawn.changed()]
    for each in folder.parent.glob(f"{folder.name}*"):
        shutil.rmtree(each, ignore_errors=True)


def _round(folder: Path, drawn: Drawn) -> Iterator[Difference | str]:
    before = _before(folder, drawn) if isinstance(drawn, Around) else {}
    far = ("--refresh", "all") if isinstance(drawn, Around) and drawn.publisher else ()
    checked, planned = run_inside(folder, "check"), run_inside(folder, "plan", "-o", "json", *far)
    seen = {**before, "check": checked, "plan": run_inside(folder, "plan", *far)}
    said = "".join(f"--- {n}\n{d.code}\n{d.out[-6000:]}{d.err[-3000:]}\n" for n, d in seen.items())
    if checked.code != 0 and planned.code == 0:
        yield Difference("check refuses, plan passes", (), said)
    applied = run_inside(folder, "apply", "--yes")
    said += f"--- apply\n{applied.code}\n{applied.out[-1500:]}{applied.err[-3000:]}\n"
    for name, each in {**before, "check": checked, "plan": planned, "apply": applied}.items():
        if "Traceback" in each.err or "bug" in each.err or each.code not in {0, 1, 3, 4}:
            yield Difference(f"{name} ends with {each.code}", (), said)
    passed = planned.code == 0
    for name in ("lock", "lock --check"):
        if name in before and before[name].code != 0 and applied.code == 0:
            yield Difference(f"{name} refuses, apply passes", (), said)
    # What values a file has, no plan has read.
    unfit = any(f"error[{code}]" in applied.err for code in ("invalid-source", "merge-input"))
    warned = "warning[needs-restate]" in seen["plan"].out + seen["plan"].err
    unfit |= warned and "error[needs-restate]" in applied.err
    if passed and applied.code != 0 and not unfit:
        yield Difference("plan passes, apply does not", (), said)
    if not passed and applied.code == 0:
        yield Difference("plan refuses, apply passes", (), said)
    if not passed and not unfit and "FAILED" in applied.err + applied.out:
        yield Difference("a step of what plan left in fails", (), said)
    if passed and applied.code == 0:
        again = run_inside(folder, "plan", "-o", "json", *far)
        steps = ["?"] if again.code != 0 else _left(json.loads(again.out))
        if again.code != 0 or steps:
            yield Difference(
                "something is left after apply", (), f"{said}--- again\n{again.out}{again.err}"
            )
    yield f"plan {planned.code}, apply {applied.code}"


def _before(folder: Path, drawn: Around) -> dict[str, Done]:
    """Return what came of what is done before a plan; the publisher has published by then."""
    if drawn.publisher is not None:
        lay_out(drawn.publisher.folder, drawn.publisher.laid_out())
        run_inside(drawn.publisher.folder, "apply", "--yes", "--gate", "off")
        drawn.publisher.publish()
    done = {name: run_inside(folder, name) for name in drawn.commands()}
    if "lock" in done and done["lock"].code == 0:
        done["lock --check"] = run_inside(folder, "lock", "--check")
    return done


def _left(plan: Any) -> list[str]:
    """Return the steps that are left, without those that look for a first file.

    Transforms may be left: one that read rows and made none reads them again.
    """
    left = []
    for step in plan["steps"]:
        names = [n for each in step["reasons"] for n in each.get("names", [])]
        if step["work"] != "transform" and not any("*" in name for name in names):
            left.append(step["id"])
    return left


def run_inside(folder: Path, command: str, *arguments: str) -> Done:
    """Run a command in this process."""
    out, err = io.StringIO(), io.StringIO()
    code: object = None
    line = patch.object(sys, "argv", ["odfbuild", *command.split(), "-C", str(folder), *arguments])
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), line:
        try:
            main()
        except SystemExit as end:
            code = end.code
    assert isinstance(code, int)
    return Done(code, out.getvalue(), err.getvalue())
