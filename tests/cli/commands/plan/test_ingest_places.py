"""Places of ingests: how much is read counts in a plan as in its apply, also what is read again."""

import pytest

from tests.support.process.inside import lay_out
from tests.support.process.placed import NEWS, Placed

LATE = {f"data/0{each}.csv": f"t,k,v\n2024-01-0{each},late{each},3\n" for each in (1, 2)}
BYTES = sum(map(len, (NEWS | LATE).values()))


@pytest.mark.parametrize(("least", "is_placed"), [(BYTES, True), (BYTES + 1, False)])
def test_files_that_are_read_again_count_with_the_new_ones(
    placed: Placed, least: int, *, is_placed: bool
) -> None:
    lay_out(placed.folder, LATE)
    rule = f"{{from: {least}B}}"
    settings = f"odfbuild: 1\nengines: {{a: {placed.entry('a', rule)}}}\n"
    lay_out(placed.folder, {"odfbuild.yaml": f"{settings}defaults: {{src: {{reread: late}}}}\n"})
    said = placed.plan()
    counted = f"read and merged by a: {BYTES:,} bytes, from {least:,} on"
    assert (counted in said) == is_placed
    placed("apply", "--yes", "src")
    assert placed.ran() == ({"a"} if is_placed else set())
