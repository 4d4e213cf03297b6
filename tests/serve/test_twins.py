"""Two tenants on one server: to each of them it answers like a server without the other's datasets.

    python -m tests.serve.test_twins --rounds 20 --seed 0

Random datasets of two tenants, some of them made of the other's, some private, some damaged; random
grants; every request of HTTP and FlightSQL that names a visible, a hidden or an absent dataset.
The twin has a copy of the workspace in which what the caller may not read does not exist.  Status,
headers and bytes of both answers are equal, but for the date.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pyarrow as pa
import pyarrow.flight as fl
import pytest

from odfbuild.odf.refs import DatasetAlias
from odfbuild.serve.tokens import matches
from odfbuild.state.workspace import Workspace
from tests.executors.runs.test_scheduler import copy
from tests.serve.flight.flight_client import FlightSqlClient, calling, wrapped
from tests.serve.test_hidden_datasets import STATES, UPGRADE, Hidden
from tests.support.data.histories import QuickDisk
from tests.support.servers.datasets import DatasetServer, serving_datasets
from tests.support.workshop import Workshop, ledger

TENANTS = ("acme", "beta")
DAMAGES = ("no-head", "head-of-rubbish", "short-block", "no-slices", "no-block")
_VARIES = frozenset(("date", "content-length"))  # the length is that of the compared bytes


@dataclass(frozen=True)
class Market:
    """A workspace of two tenants, and what it was before it was damaged."""

    folder: Path
    is_multi_tenant: bool
    datasets: Mapping[str, Hidden]
    private: frozenset[str]


def market(draw: random.Random, folder: Path) -> Market:
    """Make datasets, each of one of two tenants; those of one are made of those of both."""
    (folder / "shop").mkdir()
    shop = Workshop(folder / "shop", disk=QuickDisk())
    roots = [f"r{number}" for number in range(2)]
    made = [ledger(name) for name in roots]
    made += [copy(f"d{number}", draw.choice(roots)) for number in range(2)]
    for day in (1, 2):
        shop.file(f"{day}.csv", f"2024-01-0{day},k{day},{day}")
        behind = made if day == 1 else made[:3]
        assert not shop.apply(behind).failures
    is_multi_tenant = draw.random() < 0.5
    datasets, private = {}, set()
    for name in (str(each.alias) for each in made):
        old, tenant = DatasetAlias.parse(name), draw.choice(TENANTS)
        new = DatasetAlias.parse(f"{tenant}/{name}" if is_multi_tenant else f"{tenant}.{name}")
        shop.workspace.rename(old, new)
        dataset = shop.workspace.open(new)
        assert dataset is not None
        slice = dataset.slices()[0][0].physical_hash
        hidden = Hidden(str(new), str(dataset.id), str(dataset.head()), str(slice))
        datasets[str(new)] = hidden
        if draw.random() < 0.3:
            private.add(hidden.id)
        if draw.random() < 0.3:
            STATES[draw.choice(DAMAGES)](dataset)
    workspace = folder / "all" / "workspace"
    shutil.copytree(shop.workspace.root, workspace, ignore=shutil.ignore_patterns("index*"))
    return Market(folder, is_multi_tenant, datasets, frozenset(private))


def patterns(draw: random.Random, of: Market) -> tuple[str, ...]:
    """Draw the datasets that a token is for."""
    sign = "/" if of.is_multi_tenant else "."
    tenant = draw.choice(TENANTS)
    every = (f"{tenant}{sign}*", f"{tenant}{sign}r*", f"*{sign}d*", *of.datasets)
    return tuple(draw.sample(every, draw.choice((1, 1, 2))))


def requests(of: Market, visible: Sequence[str]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield what is asked of both servers."""
    for path in ("", "system/status", ".odfbuild/index.json", "system/runs", "system/health"):
        yield "GET", path, {}
    yield from (("GET", path, {}) for path in ("info", "accounts/me", "nothing/at/all", "query"))
    absent = "acme/zz" if of.is_multi_tenant else "acme.zz"
    other = replace(next(iter(of.datasets.values())), name=absent)
    for name, each in (*of.datasets.items(), (absent, other)):
        place = quote(name)
        for path in (
            *(f"tail?limit=2&block={each.head}", "metadata", "history"),
            *("metadata?include=Seed,Schema,Info,Refs", f"history?limit=1&from={each.head}"),
            *("refs/head", f"blocks/{each.head}", f"data/{each.slice}", "attestations/delegations"),
        ):
            yield "GET", f"{place}/{path}", {}
        yield "HEAD", f"{place}/refs/head", {}
        yield "GET", f"{place}/refs/head", {"headers": {"if-none-match": f'"{each.head}"'}}
        yield "GET", f"{place}/data/{each.slice}", {"headers": {"range": "bytes=0-3"}}
        yield "GET", f"datasets/{each.id}", {}
        for verb in ("pull", "push"):
            if verb == "push" or name not in visible:
                yield "GET", f"{place}/{verb}", {"headers": UPGRADE}
        for kind in ("data", "attestations"):
            yield "PUT", f"{place}/{kind}/{each.head}", {"content": b"{}"}
    for query in questions(of):
        yield "POST", "query", {"json": {"query": query, "include": ["Schema", "Input"]}}
    for each in [*of.datasets.values()][:2]:
        pinned = {"id": each.id, "alias": "x", "blockHash": each.head}
        yield "POST", "query", {"json": {"query": "select * from x", "datasets": [pinned]}}


def questions(of: Market) -> Iterator[str]:
    names = [*of.datasets]
    yield from (f'select count(*) as n, nothing from "{name}"' for name in names[1:3])
    yield f'select * from "{names[0]}x"'
    yield f'select 1 as n from "{names[0]}" a, "{names[-1]}" b'
    yield "select * from information_schema.tables"


def flight_answers(server: DatasetServer, of: Market, token: str | None) -> Iterator[object]:
    """Yield what FlightSQL answers."""
    assert server.flight is not None
    with calling(server.flight, token) as client:
        for name in ("CommandGetCatalogs", "CommandGetDbSchemas", "CommandGetTableTypes"):
            yield name, _flight(client, wrapped(name))
        yield "tables", _flight(client, wrapped("CommandGetTables", b"\x28\x01"))
        for query in questions(of):
            try:
                yield query, client.ask(query)
            except (fl.FlightError, pa.ArrowException) as error:
                yield query, type(error).__name__, _said(error)


def _flight(client: FlightSqlClient, command: bytes) -> object:
    try:
        return client.rows(command).to_pylist()
    except (fl.FlightError, pa.ArrowException) as error:
        return type(error).__name__, _said(error)


def _said(error: Exception) -> str:
    """Return the text of an error without the places in the client that it names."""
    return str(error).split(". gRPC client debug context")[0].split(" Detail:")[0]


def answers(
    server: DatasetServer, of: Market, token: str | None, visible: Sequence[str]
) -> Iterator[object]:
    """Yield what a server answers to each request."""
    own = {} if token is None else {"authorization": f"Bearer {token}"}
    with httpx.Client(base_url=server.url, timeout=120) as client:
        for method, path, options in requests(of, visible):
            headers = {**own, **options.get("headers", {})}
            answer = client.request(method, path, **{**options, "headers": headers})
            said = {k: v for k, v in answer.headers.items() if k.lower() not in _VARIES}
            yield method, path, str(options), answer.status_code, said, answer.content
    yield from flight_answers(server, of, token)


def twins(seed: int, folder: Path, *, mistaken: bool = False) -> tuple[int, list[str]]:
    """Compare the servers for some callers; return the number of answers and what differs.

    If `mistaken`, the twins also lack a dataset that the caller may read.
    """
    draw = random.Random(seed)
    of = market(draw, folder)
    anonymous = draw.random() < 0.5
    options = ["--flight", "0"]
    options += ["--multi-tenant"] if of.is_multi_tenant else []
    options += ["--anonymous-read"] if anonymous else []
    options += ["--accept-signed", "acme*"] if draw.random() < 0.3 else []
    problems: list[str] = []
    count = 0
    with serving_datasets(folder / "all", *options) as full:
        _privacy(full.tokens, of.private)
        callers: list[tuple[str | None, tuple[str, ...]]] = [(None, ())]
        for _ in range(1):
            granted = patterns(draw, of)
            token = full.token("read", datasets=granted[0], account=draw.choice((*TENANTS, None)))
            callers.append((token, granted[:1]))
        for number, (caller, granted) in enumerate(callers):
            public = [] if not anonymous else [
                name for name, each in of.datasets.items() if each.id not in of.private
            ]  # fmt: skip
            visible = [
                name
                for name in of.datasets
                if name in public or matches(granted, DatasetAlias.parse(name))
            ]
            place = folder / f"twin{number}"
            shutil.copytree(folder / "all", place, ignore=shutil.ignore_patterns("index*", "log"))
            _removed(place / "workspace", of, visible[1:] if mistaken else visible)
            with serving_datasets(place, *options) as twin:
                pairs = zip(
                    answers(full, of, caller, visible),
                    answers(twin, of, caller, visible),
                    strict=True,
                )
                for one, other in pairs:
                    count += 1
                    a, b = (_alike(each, *at) for each, at in
                            ((one, (full, folder / "all")), (other, (twin, place))))  # fmt: skip
                    if a != b:
                        problems.append(f"seed {seed}, {granted}, {visible}:\n  {a}\n  {b}")
    return count, problems


def _alike(answer: object, server: DatasetServer, folder: Path) -> str:
    text = repr(answer)
    for each in (f"127.0.0.1:{server.port}", str(server.flight), str(folder)):
        text = text.replace(each, "PLACE")
    return text


def _privacy(tokens: Path, private: frozenset[str]) -> None:
    tokens.parent.mkdir(exist_ok=True)
    tokens.with_name("private.json").write_text(json.dumps({"private": sorted(private)}))


def _removed(root: Path, of: Market, visible: Sequence[str]) -> None:
    """Take away all that a caller may not read."""
    names = Workspace(root).names()
    for name, each in of.datasets.items():
        if name not in visible:
            alias = DatasetAlias.parse(name)
            (root / "names" / alias.file_name).unlink()
            shutil.rmtree(root / "datasets" / names[alias].multibase)
            assert str(names[alias]) == each.id


@pytest.mark.slow
@pytest.mark.holds("serving-files")
def test_what_a_caller_may_not_read_changes_no_answer(tmp_path: Path) -> None:
    count, problems = twins(1, tmp_path)
    assert count > 100
    assert problems == []


@pytest.mark.slow
def test_a_twin_that_lacks_what_may_be_read_is_found_out(tmp_path: Path) -> None:
    _, problems = twins(1, tmp_path, mistaken=True)
    assert len(problems) > 10


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare as many markets as asked for; 1 if any answer differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.serve.test_twins")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(arguments)
    total = differ = 0
    for seed in range(asked.seed, asked.seed + asked.rounds):
        with tempfile.TemporaryDirectory() as place:
            count, problems = twins(seed, Path(place))
        total, differ = total + count, differ + len(problems)
        for each in problems:
            print(each)
        print(f"seed {seed}: {total:,} answers, {differ} differ", flush=True)
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
