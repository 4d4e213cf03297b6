"""Settings for the judgement of changes: `gates`, `accept` and `moved`."""

import re
from collections.abc import Iterable

from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.plan.policy import Acceptance, Gates, RenamedDataset, Severity
from odfbuild.project.config.settings import Section, SettingsReader
from odfbuild.project.yaml import Value

_CODE = re.compile(r"ODF[1-4][0-9]{2}", re.ASCII)
_ACCEPT_KEYS = ("code", "dataset", "column", "until", "reason")
_LEVELS = tuple(each.value for each in Severity)
_GATES = ("breaking", "data", "max_restated_rows")
_CODE_WHY = "rules are called ODF and three digits, the first of them 1 to 4"
_CODE_FIX = "odfbuild help lists the rules"


def read_gates(reading: SettingsReader, value: Value) -> Gates:
    """Return how the gate judges; whether a rule of some code exists is not checked here."""
    entries = reading.any_mapping(value, ("gates",))
    section = Section(reading, ("gates",), entries)
    rules: dict[str, Severity] = {}
    for key in entries:
        if _CODE.fullmatch(key) and (level := section.choice(key, _LEVELS)):
            rules[key] = Severity(level)
        elif not _CODE.fullmatch(key) and key not in _GATES:
            fix = f"write {', '.join(_GATES)}, or the code of a rule, such as ODF201"
            section.wrong(key, f"'{key}' is not a gate", _CODE_WHY, fix, at_key=True)
    breaking, data = section.choice("breaking", _LEVELS), section.choice("data", _LEVELS)
    return Gates(
        breaking=Severity.ERROR if breaking is None else Severity(breaking),
        rules=rules,
        max_restated_rows=section.count("max_restated_rows", 0),
        data=Severity.OFF if data is None else Severity(data),
        places={code: reading.places.key(("gates", code)) for code in rules},
    )


def read_accepted(reading: SettingsReader, value: Value) -> tuple[Acceptance, ...]:
    """Return the acceptances that are right; two of the same finding are refused."""
    known: dict[tuple[str, DatasetAlias, str | None], Acceptance] = {}
    for at, item in enumerate(reading.items(value, ("accept",))):
        required = ("code", "dataset", "until")
        entry = reading.section(item, ("accept", at), _ACCEPT_KEYS, required)
        found = _acceptance(entry)
        if found is None:
            continue
        key = (found.code, found.dataset, found.column)
        if key in known:
            entry.wrong(
                "code",
                f"{found.code} is accepted twice for {found.dataset}",
                f"line {known[key].span.line} accepts it, too",
                "keep the one with the right date",
            )
        known.setdefault(key, found)
    return tuple(known.values())


def read_moved(reading: SettingsReader, value: Value) -> tuple[RenamedDataset, ...]:
    """Return the renames, in order; two of one name, to one name, and circles are refused."""
    moves: list[RenamedDataset] = []
    for at, item in enumerate(reading.items(value, ("moved",))):
        entry = reading.section(item, ("moved", at), ("from", "to"), ("from", "to"))
        old, new = entry.alias("from"), entry.alias("to")
        if old is None or new is None:
            continue
        if old in {each.old for each in moves}:
            why = "a dataset can be renamed to one name only"
            entry.wrong("from", f"{old} is moved twice", why, "keep one of the two")
        elif new in {each.new for each in moves}:
            why = "two datasets cannot have one name"
            entry.wrong("to", f"something else is moved to {new}, too", why, "keep one of the two")
        elif old in _names_after_moves(new, moves):
            why = "the names would form a cycle"
            entry.wrong("to", f"{new} is moved to {old}", why, "remove the older of the moves")
        else:
            moves.append(
                RenamedDataset(old=old, new=new, span=entry.reading.places.value(entry.path))
            )
    return tuple(moves)


def _names_after_moves(start: DatasetAlias, moves: Iterable[RenamedDataset]) -> set[DatasetAlias]:
    """Return a name and all that it becomes in the end."""
    onward = {each.old: each.new for each in moves}
    reached = {start}
    while start in onward and onward[start] not in reached:
        start = onward[start]
        reached.add(start)
    return reached


def _acceptance(entry: Section) -> Acceptance | None:
    code, dataset, until = entry.text("code"), entry.alias("dataset"), entry.day("until")
    column, reason = entry.text("column"), entry.text("reason")
    if code is not None and not _CODE.fullmatch(code):
        entry.wrong("code", f"'{code}' is not the code of a rule", _CODE_WHY, _CODE_FIX)
    elif code is not None and dataset is not None and until is not None:
        return Acceptance(
            code=code,
            dataset=dataset,
            column=column,
            until=until,
            reason=reason,
            span=entry.reading.places.value(entry.path),
        )
    return None
