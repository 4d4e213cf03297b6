"""A source that comes a second time, right after the first, changes nothing."""

from pathlib import Path

from odfbuild.errors import OdfBuildError
from odfbuild.executors.engine.datafusion.merging import ArrowMerger
from odfbuild.odf.events import MergeStrategySnapshot, MergeStrategyUpsertStream
from tests.executors.engine.datafusion.merging.random_merges import draw, merged
from tests.support.effort import examples

_CHANGING = (MergeStrategySnapshot, MergeStrategyUpsertStream)


def test_a_source_that_comes_again_changes_nothing(tmp_path: Path) -> None:
    tried = 0
    for seed in range(examples(200, 5_000)):
        case = draw(seed)
        if not isinstance(case.strategy, _CHANGING):
            continue
        source = case.rounds[-1].sources[0]
        paths: tuple[Path, ...] = ()
        in_force, offset = None, 0
        for number in range(2):
            made = merged(
                ArrowMerger(), case, source, paths, in_force, offset, tmp_path / f"{seed}-{number}"
            )
            if isinstance(made, OdfBuildError):
                break
            (sealed,) = made
            if number:
                assert sealed.records == 0, seed
                tried += 1
            in_force, offset = sealed.schema, offset + sealed.records
            paths = tuple(each.path for each in sealed.slices)
    assert tried > 30
