"""Projects that hypothesis draws, and a floor to plan and apply them on without chance or JVM."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from hypothesis import strategies as st

from odfbuild import app
from odfbuild.executors.engine.context import Site
from odfbuild.executors.runs.report import RunReport
from odfbuild.executors.runs.scheduler import Unwatched, check_heads, run
from odfbuild.odf.chain.state import ChainState
from odfbuild.odf.events import DatasetKind
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.odf.timestamp import Timestamp
from odfbuild.planner.plan import Plan, Step
from odfbuild.state.chain.commit_request import CommitRequest
from odfbuild.state.files.disk import Disk
from odfbuild.state.workspace import Workspace
from tests.planner.builders import dataset_id
from tests.support.engines import FakeEngine
from tests.support.process.inside import lay_out

__all__ = ["Drawn", "Floor", "Node", "evolved", "in_another_order", "projects"]

NOW = Timestamp.parse("2030-01-01T00:00:00Z")
_COLUMNS = "[t DATE NOT NULL, k STRING NOT NULL, v BIGINT]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A dataset: a root with so many files, or a derivative of nodes before it by their numbers.

    `note` is its description, 0 for none; `remote` roots read the URL that the project is laid
    out with.
    """

    inputs: tuple[int, ...] = ()
    files: int = 1
    ledger: bool = False
    remote: bool = False
    note: int = 0


@dataclass(frozen=True, slots=True)
class Drawn:
    """The datasets of a project, called by their numbers; those in `moved` have a new name."""

    nodes: tuple[Node, ...]
    moved: frozenset[int] = frozenset()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(map(self._name, range(len(self.nodes))))

    def files(self, url: str | None = None) -> Mapping[str, str]:
        """Return the files of the project; without a URL no root is remote."""
        moves = ", ".join(f"{{from: acme.n{n}, to: {self._name(n)}}}" for n in sorted(self.moved))
        found = {"odfbuild.yaml": f"odfbuild: 1\nname: drawn\nmoved: [{moves}]\n"}
        for number, node in enumerate(self.nodes):
            found[f"datasets/n{number}.yaml"] = self._definition(number, node, url)
            for file in range(0 if node.inputs else node.files):
                found[f"data/n{number}/{file}.csv"] = (
                    f"t,k,v\n2024-01-0{file + 1},k{file},{number}\n"
                )
        return found

    def _name(self, number: int) -> str:
        return f"acme.m{number}" if number in self.moved else f"acme.n{number}"

    def _definition(self, number: int, node: Node, url: str | None) -> str:
        kind = "Derivative" if node.inputs else "Root"
        lines = [
            "kind: DatasetSnapshot",
            "version: 1",
            "content:",
            f"  name: {self.names[number]}",
            f"  kind: {kind}",
            "  metadata:",
            *(self._transform(node) if node.inputs else _source(number, node, url)),
            "    - {kind: SetVocab, eventTimeColumn: t}",
        ]
        if node.note:
            lines.append(f"    - {{kind: SetInfo, description: note {node.note}}}")
        return "\n".join([*lines, ""])

    def _transform(self, node: Node) -> Sequence[str]:
        refs = (f"{{datasetRef: {self._name(each)}, alias: n{each}}}" for each in node.inputs)
        query = " union all ".join(f"select t, k, v from n{each}" for each in node.inputs)
        return [
            "    - kind: SetTransform",
            f"      inputs: [{', '.join(refs)}]",
            f"      transform: {{kind: Sql, engine: spark, query: '{query}'}}",
        ]


def _source(number: int, node: Node, url: str | None) -> Sequence[str]:
    fetch = f"{{kind: FilesGlob, path: data/n{number}/*.csv}}"
    if node.remote and url is not None:
        fetch = f"{{kind: Url, url: '{url}'}}"
    return [
        "    - kind: SetPollingSource",
        f"      fetch: {fetch}",
        f"      read: {{kind: Csv, header: true, schema: {_COLUMNS}}}",
        f"      merge: {'{kind: Ledger, primaryKey: [k]}' if node.ledger else '{kind: Append}'}",
    ]


# Drawing


@st.composite
def projects(draw: st.DrawFn, *, most: int = 6) -> Drawn:
    """Draw a project of at least one root, whose nodes read any of those before them."""
    nodes = [draw(_roots)]
    for number in range(1, draw(st.integers(1, most))):
        nodes.append(draw(_roots | _derivatives(number)))
    return Drawn(tuple(nodes))


@st.composite
def evolved(draw: st.DrawFn, before: Drawn) -> Drawn:
    """Draw what a project may become: other names and descriptions, more files and datasets."""
    moved = draw(st.frozensets(st.sampled_from(range(len(before.nodes)))))
    nodes = [
        replace(each, note=draw(st.integers(each.note, 2)), files=draw(st.integers(each.files, 3)))
        for each in before.nodes
    ]
    for number in range(len(nodes), len(nodes) + draw(st.integers(0, 2))):
        nodes.append(draw(_roots | _derivatives(number)))
    return Drawn(tuple(nodes), moved)


_roots = st.builds(
    Node,
    files=st.integers(1, 2),
    ledger=st.booleans(),
    remote=st.booleans(),
    note=st.integers(0, 1),
)


def _derivatives(number: int) -> st.SearchStrategy[Node]:
    reads = st.lists(st.integers(0, number - 1), min_size=1, max_size=3, unique=True)
    return st.builds(Node, inputs=reads.map(tuple), note=st.integers(0, 1))


def in_another_order(plan: Plan, random: Random) -> Plan:
    """Return a plan with its steps in any order that lets each come after those it waits for."""
    left, done = list(plan.steps), list[Step]()
    while left:
        ids = {step.id for step in done}
        ready = [step for step in left if ids.issuperset(step.after)]
        done.append(random.choice(ready))
        left.remove(done[-1])
    return replace(plan, steps=tuple(done))


# Applying


class _QuickDisk(Disk):
    """A disk that does not wait for itself: these workspaces live for a moment."""

    def write(self, path: Path, data: bytes, mode: int = 0o666) -> None:
        with path.open("xb") as file:
            file.write(data)
        path.chmod(mode & 0o644)

    def sync(self, path: Path) -> None:
        pass


class _Named(Workspace):
    """A workspace whose datasets have ids that are made of their names."""

    def make(
        self,
        alias: DatasetAlias,
        kind: DatasetKind,
        prepared: CommitRequest,
        *,
        id: DatasetId | None = None,
    ) -> ChainState:
        return super().make(alias, kind, prepared, id=id or dataset_id(str(alias)))


class Floor:
    """A project in a folder: laid out, planned, applied; the clock stands, ids follow names."""

    def __init__(self, folder: Path, files: Mapping[str, str]) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        lay_out(folder, files)

    @property
    def opened(self) -> app.Opened:
        found = app.open_project(self.folder)
        return replace(found, workspace=_Named(found.workspace.root, disk=_QuickDisk()))

    def plan(self) -> Plan:
        return app.make(self.opened)

    def apply(self, plan: Plan, *, jobs: int = 1) -> RunReport:
        """Carry out a plan, in the order of its steps if there is one job."""
        project = self.opened
        check_heads(plan, project.workspace)
        site = Site(
            workspace=project.workspace,
            engine=FakeEngine(),
            clock=lambda: NOW,
            project_dir=project.root,
            env={},
        )
        report = run(plan, site, jobs=jobs, progress=Unwatched())
        assert not report.failures
        return report

    def chains(self) -> Mapping[str, Sequence[str]]:
        """Return the hashes of the blocks of every dataset, oldest first."""
        workspace = self.opened.workspace
        return {
            str(alias): [str(hash) for hash, _ in workspace.dataset(id).blocks()]
            for alias, id in workspace.names().items()
        }

    def contents(self) -> Mapping[str, bytes]:
        """Return the content of every file of the workspace, without the index and the leases.

        The index is a cache, whose files come and go with the connections to it; a lease is an
        empty file that is locked while a command works.
        """
        root = self.folder / ".odfbuild"
        files = (path for path in root.rglob("*") if path.is_file())
        lasting = (path for path in files if path.parent.name != "leases")
        paths = sorted(path for path in lasting if not path.name.startswith("index.sqlite"))
        return {str(path.relative_to(root)): path.read_bytes() for path in paths}
