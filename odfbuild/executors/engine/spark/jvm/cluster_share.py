"""Executors that a cluster lends a resident engine: given back, and asked for again.

Both are calls that Spark has for applications that count their executors themselves.  One with
dynamic allocation leaves that to Spark, which gives executors back by settings of its own.
"""

from typing import Any, Final

from odfbuild.values import dataclass

_NO_LIMIT: Final = (1 << 31) - 1  # what a standalone cluster assumes where nothing is said
_USUAL: Final = 2  # executors on YARN and Kubernetes, if no setting gives another number


@dataclass(frozen=True, slots=True)
class ClusterShare:
    """The executors of a context of Java, by a way into it."""

    gateway: Any
    context: Any

    def give_back(self) -> None:
        """Let all executors end, and get no others."""
        if self._counts_itself():
            return
        self._ask_for(0)
        self.context.killExecutors(self.context.getExecutorIds())

    def ask_again(self) -> None:
        """Ask for as many as at the start."""
        if self._counts_itself():
            return
        settings = self.context.conf()
        if str(settings.get("spark.master")).startswith("spark://"):
            self._ask_for(_NO_LIMIT)
        else:
            self._ask_for(int(settings.getInt("spark.executor.instances", _USUAL)))

    def _counts_itself(self) -> bool:
        return bool(self.context.conf().getBoolean("spark.dynamicAllocation.enabled", False))

    def _ask_for(self, number: int) -> None:
        nowhere = getattr(self.gateway.jvm, "scala.collection.immutable.Map$EmptyMap$")
        self.context.requestTotalExecutors(number, 0, getattr(nowhere, "MODULE$"))
