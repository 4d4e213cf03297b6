"""Steps are not older than what they read, whatever the clocks of the machines say."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfbuild.executors.verify.chain import verify
from odfbuild.executors.verify.recorded_inputs import RecordedInputs
from odfbuild.odf.events import ExecuteTransform
from odfbuild.odf.timestamp import Timestamp
from tests.executors.runs.test_scheduler import copy
from tests.support.workshop import Workshop, ledger

_DAY = 86_400_000
_START = Timestamp.parse("2024-06-01T00:00:00Z").millis
_DECLARED = (ledger(), copy("near", "src"), copy("far", "near"))


@settings(max_examples=12, deadline=None)
@given(
    clocks=st.lists(
        st.tuples(st.integers(min_value=0, max_value=20 * _DAY), st.sampled_from([1, 2, 3])),
        min_size=2,
        max_size=5,
    )
)
def test_what_machines_with_other_clocks_commit_is_in_order(
    clocks: list[tuple[int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    shop = Workshop(tmp_path_factory.mktemp("clocks"))
    shop.now = Timestamp.from_millis(_START)
    assert not shop.apply(_DECLARED).failures
    for number, (ahead, made) in enumerate(clocks):
        shop.now = Timestamp.from_millis(_START + ahead)
        shop.file(f"{number}.csv", f"2024-01-01,k{number},{number}")
        assert not shop.apply(_DECLARED[:made]).failures
    names = ("src", "near", "far")
    times = {
        hash: block.system_time for each in names for hash, block in shop.dataset(each).blocks()
    }
    inputs = RecordedInputs(shop.workspace, every=True)
    for name in names:
        assert verify(shop.dataset(name), inputs=inputs.problems).findings == ()
        blocks = [block for _, block in shop.dataset(name).blocks()]
        assert all(old.system_time <= new.system_time for old, new in pairwise(blocks))
        for block in blocks:
            if isinstance(block.event, ExecuteTransform):
                (read,) = block.event.query_inputs
                last = read.new_block_hash or read.prev_block_hash
                assert last is None or times[last] <= block.system_time
