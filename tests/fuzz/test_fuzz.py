"""Inputs of ill will against every reader: those that taught us something, and changes of them.

`make fuzz` goes on from here by the hundred thousand.
"""

import json
import tracemalloc
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.corpus import load
from fuzz.mutate import mutations
from odfbuild.errors import ProjectErrors, ProtocolError
from odfbuild.odf.schema.ddl import DdlError, parse_ddl
from odfbuild.odf.wire.blocks import decode_block
from odfbuild.project.read import read_manifests
from tests.fuzz.targets import DEADLY, TARGETS
from tests.support.effort import examples

CORPUS = {name: load(name) for name in TARGETS}
# these lay files out or run templates: what takes a hundred times as long is changed less often
CHANGES = {"project": 1, "template": 1, "text": 3, "packed": 3}
_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
_JSON = _SCALARS | st.lists(_SCALARS, max_size=2) | st.dictionaries(st.text(), _SCALARS, max_size=2)
each_target = pytest.mark.parametrize("name", TARGETS)
each_tame_target = pytest.mark.parametrize("name", [t for t in TARGETS if t not in DEADLY])


@each_target
def test_what_was_kept_of_earlier_runs_breaks_nothing(name: str) -> None:
    assert CORPUS[name]
    for data in CORPUS[name]:
        TARGETS[name](data)


@each_tame_target
def test_changed_inputs_break_nothing(name: str) -> None:
    @given(st.integers(0, 2**32))
    def law(seed: int) -> None:
        for data in islice(mutations(CORPUS[name], seed), CHANGES.get(name, 20)):
            TARGETS[name](data)

    law()


@each_tame_target
@settings(max_examples=examples(25, 2_000))
@given(data=st.binary(max_size=200))
def test_any_bytes_break_nothing(name: str, data: bytes) -> None:
    TARGETS[name](data)


@pytest.mark.parametrize("count", [2**16, 2**31, 2**32 - 1])
def test_a_length_is_not_believed(count: int) -> None:
    """A number that stands for a length anywhere in a block asks for no memory."""
    good = max(CORPUS["block"], key=len)
    tracemalloc.start()
    for at in range(0, len(good) - 4, 4):
        TARGETS["block"](good[:at] + count.to_bytes(4, "little") + good[at + 4 :])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2_000_000


def test_the_least_of_blocks_is_refused() -> None:
    for data in (b"", b"\0" * 4, b"\4\0\0\0" * 2, b"\xff" * 64):
        with pytest.raises(ProtocolError):
            decode_block(data)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 10_000,
        "[" * 10_000 + "]" * 10_000,
        "{a: " * 10_000,
        "- " * 10_000,
        "? " * 10_000,
        "a: &a [*a]",
        "\n".join(
            ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60)]
        ),
    ],
    ids=["open", "nested", "mappings", "dashes", "keys", "itself", "bomb"],
)
def test_yaml_cannot_grow_without_bounds(text: str) -> None:
    tracemalloc.start()
    with pytest.raises(ProjectErrors):
        read_manifests(text, "f.yaml")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50_000_000


def test_columns_cannot_nest_without_bounds() -> None:
    for text in ("a " + "ARRAY<" * 100_000, "a " + "STRUCT<b " * 100_000):
        with pytest.raises(DdlError, match="nested"):
            parse_ddl(text)


@given(st.data())
def test_a_plan_with_one_value_changed_is_read_or_refused(data: st.DataObject) -> None:
    plans = [each for each in CORPUS["plan"] if b'"plan_hash"' in each]
    document = json.loads(data.draw(st.sampled_from(plans)))
    holder, key = data.draw(st.sampled_from(list(_places(document))))
    holder[key] = data.draw(_JSON)
    TARGETS["plan"](json.dumps(document).encode())


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every list and mapping with each of its indexes and keys."""
    for key, each in value.items() if isinstance(value, dict) else enumerate(value):
        yield value, key
        if isinstance(each, dict | list):
            yield from _places(each)
