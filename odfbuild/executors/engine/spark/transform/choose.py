"""Choice of the operator of a step: by the class of its query, and by what has to be read."""

from functools import partial

from odfbuild.executors.engine.protocol import TransformWork
from odfbuild.executors.engine.spark.transform.in_memory import InMemory
from odfbuild.executors.engine.spark.transform.keyed import Keyed
from odfbuild.executors.engine.spark.transform.linear import Linear
from odfbuild.executors.engine.spark.transform.raw_log import RawLog
from odfbuild.executors.engine.spark.transform.run import Operator
from odfbuild.executors.engine.spark.transform.state import State


def choose(work: TransformWork, *, most: int) -> Operator:
    """Return the operator of a step; up to `most` bytes may be read into memory for it.

    state       counts of groups are kept in a checkpoint
    linear      rows are looked at one by one, also those of the event log
    raw log     the event log is read, and all that the dataset holds is to be corrected
    in memory   inner joins add up what is new; else the rows of the touched keys or windows,
                or all of them, are few
    keyed       anything else
    """
    query = work.query
    if work.new_checkpoint is not None and query.accumulators is not None:
        return State(work, query.accumulators, partial(_of_two_states, work, most))
    if query.facts.is_linear and not work.in_full:
        return Linear(work)
    return RawLog(work) if query.facts.names_op else _of_two_states(work, most)


def _of_two_states(work: TransformWork, most: int) -> Operator:
    """Return an operator that compares the result before the step with that after it."""
    from odfbuild.executors.engine.arrow.joins import weighted
    from odfbuild.executors.engine.arrow.keyed import touched_states

    found = weighted(work, most=most) or touched_states(work, most=most)
    return Keyed(work) if found is None else InMemory(work, found)
