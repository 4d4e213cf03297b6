"""Take datasets away that the project no longer declares: worked out, to be done as an undo is."""

from collections.abc import Collection, Iterator, Mapping

from odfbuild.app.loading import load
from odfbuild.app.opened import Opened
from odfbuild.errors import Diagnostic, ProjectErrors
from odfbuild.odf.events import SetTransform
from odfbuild.odf.identity import DatasetId
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.declared import Declared
from odfbuild.planner.housekeeping import extent
from odfbuild.planner.undo import Back, Undo, diverging, in_order

__all__ = ["prepare_retirement", "refuse_declared"]


def prepare_retirement(project: Opened, names: Collection[DatasetAlias]) -> Undo:
    """Work out what it takes to retire datasets: readers first, each loses its name and its head.

    Raises ProjectErrors with every definition that is still there, or still reads one of them.
    """
    states = project.workspace.states()
    gone = {states[alias].dataset: alias for alias in names}
    refuse_declared(project, gone)
    steps = []
    for id, alias in gone.items():
        blocks = project.workspace.dataset(id).blocks(upto=states[alias].head)
        given_up = extent(block.event for _, block in blocks)
        steps.append(
            Back(
                alias=alias,
                id=id,
                kind=states[alias].kind,
                expected=states[alias].head,
                to=None,
                blocks=given_up.blocks,
                records=given_up.records,
            )
        )
    ordered = in_order(steps, states)
    after = {alias: state for alias, state in states.items() if alias not in names}
    vanishing = {
        step.id: {hash for hash, _ in project.workspace.dataset(step.id).blocks(upto=step.expected)}
        for step in ordered
    }
    return Undo(
        run=None,
        project=project.config.name,
        target=project.target,
        workspace=project.config.target(project.target).workspace,
        steps=ordered,
        diverging=diverging(ordered, vanishing, after),
    )


def refuse_declared(project: Opened, gone: Mapping[DatasetId, DatasetAlias]) -> None:
    """Raise ProjectErrors with every definition of datasets that go, and of what reads them."""
    there, names = project.workspace.names(), set(gone.values())
    problems = [
        *_declared(load(project).declared, gone),
        *(
            _moving(entry.old, entry.new)
            for entry in project.policy.moved
            if entry.old in names and entry.new not in there
        ),
    ]
    if problems:
        raise ProjectErrors(problems)


def _declared(
    declared: Collection[Declared], gone: Mapping[DatasetId, DatasetAlias]
) -> Iterator[Diagnostic]:
    names = set(gone.values())
    for each in declared:
        if each.alias in names:
            yield Diagnostic(
                code="still-declared",
                what=f"{each.alias} is declared",
                why="the next apply would make another dataset of that name, without its history",
                fix=f"remove the definition, then: odfbuild retire {each.alias}",
                span=each.span(()),
            )
            continue
        for index, event in enumerate(each.snapshot.metadata):
            refs = event.inputs if isinstance(event, SetTransform) else ()
            for at, ref in enumerate(refs):
                known = ref.dataset_ref
                read = gone.get(known) if isinstance(known, DatasetId) else known
                if read in names:
                    yield Diagnostic(
                        code="still-read",
                        what=f"{each.alias} reads {read}",
                        why="it could not go on without its input",
                        fix="remove this definition as well, or have it read another dataset; "
                        f"then: odfbuild retire {read}",
                        span=each.span(("metadata", index, "inputs", at)),
                    )


def _moving(old: DatasetAlias, new: DatasetAlias) -> Diagnostic:
    return Diagnostic(
        code="still-declared",
        what=f"{old} is to become {new}",
        why="odfbuild.yaml says so under moved:, and that is not done yet",
        fix=f"odfbuild apply {new}, or take that entry out",
    )
