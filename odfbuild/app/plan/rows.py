"""Plan rows: what is stored of each dataset of a plan, for the next, partial plan.

Rows are kept of plans where nothing but the dataset itself, what it is made of and what is made of
it decides on what is said of it: neither defaults, generators, packages nor columns of a lock file.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from odfbuild.executors.ingest.fetch.local import is_local
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import SetTransform, TransformInput
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared, polling_of
from odfbuild.planner.make_plan import definition_text
from odfbuild.planner.plan import Plan
from odfbuild.project.config.project_file import Config
from odfbuild.project.files.places import LazyPlaces
from odfbuild.project.opened import Opened
from odfbuild.project.yaml.places import PlaceFinder
from odfbuild.state.memory.plan_rows import PlanRows

_LOCK: Final = "odfbuild.lock"
_DEFINITIONS: Final = (".yaml", ".yml")
_INCLUDE: Final = "!include"
_OF_SQL: Final = re.compile(r"!include\s+[\"']?[^\s\"']+\.sql\b")


def rows_of(
    project: Opened,
    plan: Plan,
    declared: Sequence[Declared],
    current: Mapping[DatasetAlias, ChainState],
) -> PlanRows | None:
    """Return the rows of a plan, None of one whose datasets cannot be planned in parts."""
    if not is_plain(project.config) or (project.root / _LOCK).exists() or not in_parts(plan):
        return None
    if len(plan.datasets) != len(declared) or not all(is_alone(each) for each in declared):
        return None
    if any(state.vocab.operation_type_column != "op" for state in current.values()):
        return None
    numbers = {each.alias: number for number, each in enumerate(declared)}
    targets = {step.target for step in plan.steps}
    loud = [number for alias, number in numbers.items() if is_loud(plan, alias, targets)]
    if len(loud) == len(declared):  # as in a project that is not built: there is no rest
        return None
    ids = {state.dataset: alias for alias, state in current.items()}
    links = [Links(each, current.get(each.alias), numbers, ids) for each in declared]
    if not all(each.is_whole for each in links):
        return None
    states = [current.get(each.alias) for each in declared]
    return PlanRows(
        aliases=[str(each.alias) for each in declared],
        files=[each.file for each in declared],
        ids=[None if state is None else state.dataset.multibase for state in states],
        reads=[each.reads for each in links],
        holds=[each.holds for each in links],
        sources=[number for number, each in enumerate(declared) if has_local_source(each)],
        loud=loud,
        forms=[definition_text(each) for each in declared],
        places=[place_of(plan, each.alias) for each in declared],
    )


def is_plain(config: Config) -> bool:
    """Say whether nothing in the settings is about datasets by their place among others."""
    return not (
        config.generators
        or config.packages
        or config.defaults
        or config.moved
        or config.accepted
        or config.python_macros
    )


def in_parts(plan: Plan) -> bool:
    """Say whether all that a plan says is about single datasets."""
    return not (plan.notes or plan.outside or plan.refused)


def is_alone(each: Declared) -> bool:
    """Say whether a definition depends on no other file that may be a definition."""
    if each.instance is not None or each.package is not None:
        return False
    if not each.file.lower().endswith(_DEFINITIONS):
        return False
    if isinstance(each.places, LazyPlaces):
        return True
    if not isinstance(each.places, PlaceFinder):
        return False
    text = each.places.source.text
    return text.count(_INCLUDE) == len(_OF_SQL.findall(text))


def has_local_source(each: Declared) -> bool:
    """Say whether a look at the file system tells if a dataset has news."""
    source = polling_of(each)
    return source is not None and is_local(source.fetch)


def is_loud(plan: Plan, alias: DatasetAlias, targets: "set[DatasetAlias]") -> bool:
    """Say whether a plan says something of a dataset, so that the next one looks at it again."""
    planned = plan.datasets[alias]
    return alias in targets or planned.assessment is not None or planned.based_on is None


def place_of(plan: Plan, alias: DatasetAlias) -> str:
    """Return the Place of a declared dataset as JSON."""
    planned = plan.datasets[alias]
    at = planned.place
    assert at is not None  # noqa: S101 - it is declared
    return json.dumps([planned.kind.value, at.line, at.column, at.length, at.excerpt])


class Links:
    """The inputs of a dataset by number: as it is declared, and as its chain has them."""

    def __init__(
        self,
        each: Declared,
        state: ChainState | None,
        numbers: Mapping[DatasetAlias, int],
        ids: Mapping[DatasetId, DatasetAlias],
    ) -> None:
        self._numbers = numbers
        self._ids = ids
        events = (e for e in each.snapshot.metadata if isinstance(e, SetTransform))
        declared = [given for event in events for given in event.inputs]
        self.reads = sorted(set(self._numbers_of(declared)))
        self.is_whole = len(self.reads) == len(declared)
        held = () if state is None or state.transform is None else state.transform.inputs
        read = () if state is None else state.progress
        progress = (ids[id] for id in read if id in ids)
        more = {numbers[alias] for alias in progress if alias in numbers}
        self.holds = sorted((more | set(self._numbers_of(held))) - set(self.reads))

    def _numbers_of(self, inputs: Sequence[TransformInput]) -> Iterator[int]:
        for given in inputs:
            ref = given.dataset_ref
            alias = self._ids.get(ref) if isinstance(ref, DatasetId) else ref
            if alias is not None and alias in self._numbers:
                yield self._numbers[alias]
