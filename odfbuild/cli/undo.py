"""odfbuild undo: say where heads go back to and who diverges, ask, and do it."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from odfbuild import app
from odfbuild.app.events import Asking
from odfbuild.app.undoing import prepare_undo, take_back
from odfbuild.cli import exits
from odfbuild.cli.act import refuse_unfit, refuse_unplanned
from odfbuild.cli.busy import reserved
from odfbuild.cli.confirm import confirm
from odfbuild.cli.opened import open_given
from odfbuild.cli.options import Given, OnBusy
from odfbuild.cli.printable import printable, printable_json
from odfbuild.cli.words import count, kind_word
from odfbuild.odf.refs import DatasetAlias, InvalidNameError
from odfbuild.planner.housekeeping import Stranded
from odfbuild.planner.plan_json import canonical
from odfbuild.planner.plan_object import DamagedPlanError
from odfbuild.planner.undo import Back, Undo, to_json

__all__ = [
    "UndoOptions",
    "apply_saved_undo",
    "is_undo",
    "take_back_or_tell",
    "undo_lines",
    "undo_run",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoOptions:
    """What was asked of `undo`."""

    out: Path | None = None
    dry_run: bool = False
    yes: bool = False
    as_json: bool = False
    lock_timeout: float = 10.0
    on_busy: str = OnBusy.WAIT


def undo_run(given: Given, run: str, options: UndoOptions) -> int:
    """Print what taking a run back does; then save it, or ask and do it."""
    project = open_given(given, lock_timeout=options.lock_timeout)
    only_told = options.dry_run or options.out is not None
    if not only_told:
        refuse_unplanned(project, given, "undo")
    undo = prepare_undo(project, run)
    if only_told or not undo.steps:
        return take_back_or_tell(project, undo, options)
    with reserved(project, _names(undo), command="undo", on_busy=options.on_busy) as mine:
        if mine.busy:
            return exits.DONE
        again = prepare_undo(project, run) if mine.waited else undo
        return take_back_or_tell(project, again, options)


def _names(undo: Undo) -> set[DatasetAlias]:
    old = {each.old_name for each in undo.steps if each.old_name is not None}
    return old | {each.alias for each in undo.steps}


def take_back_or_tell(project: app.Opened, undo: Undo, options: UndoOptions) -> int:
    """Print what is taken back; then save it, or ask and do it."""
    _tell(undo, as_json=options.as_json)
    if options.out is not None and undo.steps:
        from odfbuild.cli.files import write_output

        write_output(options.out, f"{canonical(to_json(undo))}\n")
    if options.dry_run or options.out is not None or not undo.steps:
        return exits.DONE
    if not options.yes:
        confirm(_command(undo))
    return _done(project, undo, as_json=options.as_json)


def is_undo(document: object) -> bool:
    """Say whether a saved plan takes a run back."""
    return isinstance(document, dict) and "undo_version" in document


def apply_saved_undo(
    given: Given, document: dict[str, Any], lock_timeout: float, on_busy: str
) -> int:
    """Do exactly what was saved; StalePlanError, with nothing done, if it would now be another."""
    from odfbuild.executors.runner import StalePlanError

    try:
        run, target = document["run"], document["target"]
        names = {DatasetAlias.parse(each["dataset"]) for each in document["steps"]}
        place = (str(document["project"]), str(target["name"]), str(target["workspace"]))
    except (LookupError, TypeError, InvalidNameError) as error:
        raise DamagedPlanError.at("undo_version", "something is missing") from error
    project = open_given(replace(given, target=given.target or place[1]), lock_timeout=lock_timeout)
    refuse_unfit(place, project)
    undo = _prepare(project, run, names)
    with reserved(project, names | _names(undo), command=_command(undo), on_busy=on_busy) as mine:
        if mine.busy:
            return exits.DONE
        undo = _prepare(project, run, names) if mine.waited else undo
        if to_json(undo) != document:
            raise StalePlanError(
                what=f"taking back the run {run} would now do something else"
                if run is not None
                else "retiring these datasets would now do something else",
                why="a saved plan is carried out as it was reviewed, or not at all",
                fix=f"save it again: odfbuild undo {run} --out FILE"
                if run is not None
                else "save it again: odfbuild retire SEL --out FILE",
            )
        _tell(undo, as_json=False)
        return _done(project, undo, as_json=False)


def _prepare(project: app.Opened, run: object, names: set[DatasetAlias]) -> Undo:
    if run is not None:
        return prepare_undo(project, str(run))
    from odfbuild.app.retiring import prepare_retirement

    return prepare_retirement(project, names & project.workspace.states().keys())


def _command(undo: Undo) -> str:
    return "retire" if undo.run is None else "undo"


def _done(project: app.Opened, undo: Undo, *, as_json: bool) -> int:
    begun: list[str] = []
    asking = Asking(command=_command(undo), follows=undo.run, began=begun.append)
    take_back(project, undo, asking)
    out = sys.stderr if as_json else sys.stdout
    word, again = (
        ("taken back", "goes forth again") if undo.run else ("retired", "brings them back")
    )
    forth = f"; odfbuild undo {begun[0]} {again}, until gc" if begun else ""
    out.write(f"\nDone: {count(len(undo.steps), 'dataset')} {word}{forth}.\n")
    return exits.DONE


def _tell(undo: Undo, *, as_json: bool) -> None:
    if as_json:
        document = json.dumps(to_json(undo), indent=2, ensure_ascii=False)
        sys.stdout.write(f"{printable_json(document)}\n")
    else:
        sys.stdout.write("".join(f"{printable(line)}\n" for line in undo_lines(undo)))
    sys.stdout.flush()


def undo_lines(undo: Undo) -> Iterator[str]:
    """Yield what will happen, line by line."""
    if not undo.steps and undo.run is None:
        yield "Nothing to do."
        return
    if not undo.steps:
        yield f"Nothing to do: no dataset stands where the run {undo.run} put it."
        return
    if undo.run is None:
        yield f"Retire {count(len(undo.steps), 'dataset')}:"
    else:
        yield f"Undo of the run {undo.run}"
    yield ""
    width = max(len(str(each.alias)) for each in undo.steps)
    for each in undo.steps:
        kind = kind_word(each.kind)
        yield f"  {_mark(each)} {each.alias!s:<{width}}  {kind:<10}  {_what(undo, each)}"
    yield ""
    if undo.run is None:
        yield "Their names and heads go; keys stay, and so do copies elsewhere. An apply that"
        yield "declares one of the names makes another dataset, with another id."
    elif any(each.to is None for each in undo.steps):
        yield "A dataset that the run made is none any more: its name and head go, and an apply"
        yield "that declares it makes another one, with another id."
    if any(each.to is not None and each.expected is not None for each in undo.steps):
        yield "The next apply goes on from there: it reads again what was taken in since."
    yield "Blocks and files stay where they are until gc."
    if undo.diverging:
        yield ""
        yield from _diverging(undo)


def _mark(step: Back) -> str:
    if step.to is None:
        return "-"
    return "+" if step.expected is None else "<"


def _what(undo: Undo, step: Back) -> str:
    if step.to is None:
        made = "" if undo.run is None else "was made by the run; "
        return f"{made}gives up {_given_up(step)}"
    if step.expected is None:
        return f"is there again, head {step.to.short()}"
    named = "" if step.old_name is None else f"; is called {step.old_name} again"
    if step.to == step.expected:
        return f"keeps its head{named}"
    given_up = f"; gives up {_given_up(step)}" if step.blocks else ""
    return f"head {step.expected.short()} → {step.to.short()}{given_up}{named}"


def _given_up(step: Back) -> str:
    return f"{count(step.blocks, 'block')}, {count(step.records, 'record')}"


def _diverging(undo: Undo) -> Iterator[str]:
    which = count(len({each.dataset for each in undo.diverging}), "dataset")
    yield f"{which} cannot go on then, because what was read last is gone:"
    width = max(len(str(each.dataset)) for each in undo.diverging)
    for each in undo.diverging:
        yield f"  ! {each.dataset!s:<{width}}  {_read_so_far(each)}"
    if undo.run is None:
        yield "They are not declared either: retire them as well, or what they have stays as it is."
    else:
        yield "Take back the later runs that read it first, or: odfbuild rebuild NAME"


def _read_so_far(each: Stranded) -> str:
    read = "no records yet" if each.offset is None else f"read up to offset {each.offset:,}"
    more = f"; then also {', '.join(map(str, each.readers))}" if each.readers else ""
    return f"{read}{more}"
