"""Functions for logs of Ethereum, against logs that a second encoder wrote."""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from odfbuild.errors import InvalidQueryError
from odfbuild.executors.engine.datafusion import ethereum
from odfbuild.executors.engine.datafusion.ethereum import MalformedLogError, decoded, parse_event
from odfbuild.executors.engine.datafusion.session import query_context, rows_of

MANIFESTS = Path(__file__).parents[5] / "shared" / "manifests"
REQUEST = "SendRequest(uint64 indexed requestId, address indexed consumerAddr, bytes request)"
SELECTORS = {  # published by block explorers, and by the reference's tests
    "Transfer(address indexed from, address indexed to, uint256 value)": "ddf252ad1be2c89b69c2b068"
    "fc378daa952ba7f163c4a11628f55a4df523b3ef",
    "event Approval(address indexed owner,address indexed spender,uint value) ;": "8c5be1e5ebec7d5b"
    "d14f71427d1e84f3dd0314c0f7b2291e5b200ac8c7c3b925",
    REQUEST: "41987d99f799d840cf38d453e305eb131a47bb34369b3a78d7177de3c2659af5",
}


# --- logs, as a contract would write them ---------------------------------------------------------


def word(number: int) -> bytes:
    return (number % (1 << 256)).to_bytes(32, "big")


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 32)


Value = int | str | bytes
Kind = tuple[str, st.SearchStrategy[Value]]
INTEGERS: list[Kind] = [
    kind
    for bits in range(8, 257, 8)
    for kind in (
        (f"uint{bits}", st.integers(0, (1 << bits) - 1)),
        (f"int{bits}", st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)),
    )
]
KINDS: list[Kind] = [
    *INTEGERS,
    ("uint", st.integers(0, (1 << 256) - 1)),
    ("address", st.binary(min_size=20, max_size=20)),
    ("bool", st.booleans()),
    ("string", st.text(st.characters(exclude_categories=["Cs"]), max_size=40)),
    ("bytes", st.binary(max_size=70)),
    *((f"bytes{size}", st.binary(min_size=size, max_size=size)) for size in (1, 4, 31, 32)),
]
NAMES = st.from_regex(r"[A-Za-z_$][A-Za-z0-9_$]{0,5}", fullmatch=True)


def short(kind: str, value: Value) -> bytes | None:
    """Return the word of a value, None for one that is longer than a word or may be."""
    if isinstance(value, int):
        return word(int(value))
    if isinstance(value, str) or kind == "bytes":
        return None
    return bytes(12) + value if kind == "address" else padded(value)


def body(values: Sequence[tuple[str, Value]]) -> bytes:
    heads, tail = [], b""
    for kind, value in values:
        head = short(kind, value)
        if head is None:
            head = word(32 * len(values) + len(tail))
            data = value.encode() if isinstance(value, str) else value
            assert isinstance(data, bytes)
            tail += word(len(data)) + padded(data)
        heads.append(head)
    return b"".join(heads) + tail


def shown(kind: str, value: Value) -> object:
    if isinstance(value, bool | str):
        return value
    if isinstance(value, bytes):
        return value.hex()
    return value if kind != "uint" and int(kind.strip("uint")) <= 64 else str(value)


@st.composite
def logs(draw: st.DrawFn) -> tuple[str, list[bytes], bytes, dict[str, object]]:
    """Draw the signature of an event, topics and data of a log of it, and what it says."""
    name = draw(NAMES)
    names = draw(st.lists(NAMES.filter(lambda each: each != "indexed"), max_size=5, unique=True))
    anonymous = draw(st.booleans())
    parameters: list[str] = []
    topics: list[bytes] = []
    plain: list[tuple[str, Value]] = []
    said: dict[str, object] = {"name": name}
    for each in names:
        kind, values = draw(st.sampled_from(KINDS))
        value = draw(values)
        indexed = len(topics) < 3 and draw(st.booleans())
        space = draw(st.sampled_from([" ", "  ", "\n\t"]))
        parameters.append(f"{space}{kind}{space}{'indexed ' if indexed else ''}{each}")
        if indexed:
            topic = short(kind, value)
            topics.append(topic or draw(st.binary(min_size=32, max_size=32)))
            said[each] = shown(kind, value) if topic else topics[-1].hex()
        else:
            plain.append((kind, value))
            said[each] = shown(kind, value)
    signature = f"{name}({','.join(parameters)}){' anonymous' if anonymous else ''}"
    first = [] if anonymous else [parse_event(signature).selector]
    return signature, [*first, *topics], body(plain), said


@given(logs())
def test_what_a_contract_wrote_is_read(
    log: tuple[str, list[bytes], bytes, dict[str, object]],
) -> None:
    signature, topics, data, said = log
    found = decoded(parse_event(signature), topics, data)
    assert found == json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


@given(logs(), st.data())
def test_a_log_of_something_else_is_refused_or_read_otherwise(
    log: tuple[str, list[bytes], bytes, dict[str, object]], data: st.DataObject
) -> None:
    """No other error than the one that eth_try_decode_event knows."""
    signature, topics, written, _ = log
    topics = data.draw(st.one_of(st.just(topics), st.lists(st.binary(max_size=33), max_size=4)))
    cut = data.draw(st.integers(0, len(written)))
    changed = written[:cut] + data.draw(st.binary(max_size=64)) + written[cut + 32 :]
    with suppress(MalformedLogError):
        json.loads(decoded(parse_event(signature), topics, changed))


@pytest.mark.parametrize("signature", SELECTORS)
def test_selectors_are_those_of_the_network(signature: str) -> None:
    assert parse_event(signature).selector.hex() == SELECTORS[signature]


@pytest.mark.parametrize(
    "signature",
    ["", "Moved", "Moved(", "Moved(address)x", "Moved(money m)", "Moved(uint7 m)",
     "Moved(uint8[] m)", "Moved((uint8,bool) m)", "Moved(uint8 indexed indexed m)",
     "Moved(bytes33 m)", "1(uint8 m)",
     "M(" + "uint8," * 5000 + "uint8)"],
)  # fmt: skip
def test_what_is_no_event_is_refused(signature: str) -> None:
    with pytest.raises(MalformedLogError):
        parse_event(signature)


# --- queries --------------------------------------------------------------------------------------

COLUMNS = ("topic0", "topic1", "topic2", "topic3", "data")
LOG = (
    bytes.fromhex(SELECTORS[REQUEST]), word(123), bytes(12) + b"\xaa" * 20, None,
    body([("bytes", b"\xff\x00")]),
)  # fmt: skip


def answer(query: str, *rows: Sequence[object]) -> list[dict[str, object]]:
    columns = [pa.array(column, pa.binary()) for column in zip(*rows, strict=True)]
    with query_context(spill=None, clock=False) as context:
        context.add("input", pa.table(columns, names=list(COLUMNS)))
        found: list[dict[str, object]] = rows_of(context.last(query)).to_pylist()
        return found


def test_an_event_is_a_json_text_as_in_the_reference() -> None:
    args = f"'{REQUEST}', topic0, topic1, topic2, topic3, data"
    (row,) = answer(f"select eth_decode_event({args}) as e from input", LOG)
    aa = "aa" * 20
    assert row["e"] == (
        f'{{"consumerAddr":"{aa}","name":"SendRequest","request":"ff00","requestId":123}}'
    )
    other = (b"\x00" * 32, *LOG[1:])
    found = answer(f"select eth_try_decode_event({args}) is null as n from input", LOG, other)
    assert found == [{"n": False}, {"n": True}]
    with pytest.raises(InvalidQueryError, match="not of the event SendRequest"):
        answer(f"select eth_decode_event({args}) as e from input", other)
    chosen = f"select 1 as n from input where topic0 = eth_event_selector('{REQUEST}')"
    assert answer(chosen, LOG, other) == [{"n": 1}]


@pytest.mark.skipif(not MANIFESTS.is_dir(), reason="the published definitions are not here")
def test_the_query_of_a_published_definition_gives_rows() -> None:
    text = (MANIFESTS / "net.rocketpool" / "reth.mint-burn-2in1.yaml").read_text()
    (source,) = yaml.safe_load(text)["content"]["metadata"]
    minted, burned = (
        parse_event(f"{name}(address indexed a, uint256 b, uint256 c, uint256 d)")
        for name in ("TokensMinted", "TokensBurned")
    )
    numbers = [("uint256", 15 * 10**17), ("uint256", 2 * 10**18), ("uint256", 1_700_000_000)]
    topic = bytes(12) + b"\xab" * 20
    rows = [[each.selector, topic, None, None, body(numbers)] for each in (minted, burned)]
    table = pa.table([pa.array(column, pa.binary()) for column in zip(*rows, strict=True)], COLUMNS)
    for name, kind in (("block_hash", pa.binary()), ("transaction_hash", pa.binary())):
        table = table.append_column(name, pa.array([b"\x01", b"\x02"], kind))
    for name in ("block_number", "transaction_index", "log_index"):
        table = table.append_column(name, pa.array([1, 2], pa.int64()))
    table = table.append_column("block_timestamp", pa.nulls(2, pa.timestamp("ms", "UTC")))
    with query_context(spill=None, clock=False) as context:
        context.add("input", table)
        found = rows_of(context.last(source["preprocess"]["query"])).to_pylist()
    assert [each["event_name"] for each in found] == ["TokensMinted", "TokensBurned"]
    assert [each["holder_address"] for each in found] == [b"\xab" * 20] * 2
    assert [(each["amount"], each["eth_amount"]) for each in found] == [(1.5, 2.0)] * 2
    assert {each["event_time"].isoformat() for each in found} == {"2023-11-14T22:13:20+00:00"}


def test_where_the_library_is_not_installed_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ethereum, "is_installed", lambda: False)
    with pytest.raises(InvalidQueryError) as caught:
        answer("select eth_event_selector('A()') as s from input", LOG)
    assert "eth_event_selector" in caught.value.what
    assert "odfbuild[ethereum]" in caught.value.fix
