"""The class of a declared query: how it can be computed, and the clause that decides."""

from odfbuild.odf.events import SetTransform
from odfbuild.odf.opaque import is_opaque
from odfbuild.planner.changes import QueryClass
from odfbuild.planner.declared import Declared

__all__ = ["class_of"]


def class_of(declared: Declared) -> QueryClass | None:
    """Return the class of a dataset's transform; None if it has none that can be read."""
    from odfbuild.planner.query import examine, steps_of

    events = declared.snapshot.metadata
    found = next((event for event in events if isinstance(event, SetTransform)), None)
    if found is None or is_opaque(found.transform):
        return None
    names = [each.alias or str(each.dataset_ref) for each in found.inputs]
    facts = examine(steps_of(found.transform), names)
    return QueryClass("linear") if facts.is_linear else QueryClass("whole", facts.kind)
