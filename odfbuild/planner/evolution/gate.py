"""The gate: findings of a plan that are refused, reported or accepted.  Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace

from odfbuild.errors import Diagnostic, Level, SourceSpan
from odfbuild.odf.refs import DatasetAlias
from odfbuild.planner.evolution.rules.catalogue import catalogue, rule, severity_by_class
from odfbuild.planner.evolution.rules.policy import (
    ACCEPTANCE_EXPIRED,
    ACCEPTANCE_UNUSED,
    PROTECTED_TARGET,
    UNKNOWN_RULE,
)
from odfbuild.planner.evolution.rules.rule import Rule, hit
from odfbuild.planner.plan.changes import Assessment, Hit, Judgement, Verdict
from odfbuild.planner.plan.policy import Acceptance, Policy, Severity
from odfbuild.texts.suggest import did_you_mean
from odfbuild.values import dataclass

STRICT, DEFAULT, OFF = "strict", "default", "off"
MODES = (STRICT, DEFAULT, OFF)


@dataclass(frozen=True, slots=True)
class Allowance:
    """What one run lets through: a rule, and the datasets that a selector meant; None is all."""

    code: str
    datasets: frozenset[DatasetAlias] | None
    text: str


@dataclass(slots=True)
class PlanGate:
    """Judges hits by the policy; keeps in mind which acceptances were of use.

    `strict` refuses warnings, too, and honours no acceptance without a reason; `off` refuses
    nothing.  A protected target honours neither `off` nor an allowance.
    """

    policy: Policy
    mode: str = DEFAULT
    allowed: tuple[Allowance, ...] = ()
    protect: bool = False
    _used: set[int] = field(default_factory=set, init=False)
    _expired: set[int] = field(default_factory=set, init=False)

    def judge(self, hits: Sequence[Hit]) -> tuple[Hit, ...]:
        """Return the hits with what the gate makes of each, and what it says of itself."""
        judged: list[Hit] = []
        for each in hits:
            judged.append(self._judge(replace(each, severity=self.severity(each))))
            judged += self._protected_hits(judged[-1])
        return tuple(judged)

    def severity(self, given: Hit) -> Severity:
        """Return how much a hit matters: the rule's own entry, its class, or its default."""
        own = self.policy.gates.rules.get(given.code)
        if own is not None:
            return own
        by_class = severity_by_class(given.change, self.policy.gates.breaking)
        if by_class is None or given.severity is not rule(given.code).severity:
            return given.severity
        return by_class

    def notes(
        self, known: Collection[DatasetAlias], considered: Collection[DatasetAlias] | None = None
    ) -> tuple[Diagnostic, ...]:
        """Return what is to be said of the policy itself, once everything was judged.

        `considered` are the datasets that were looked at, None for all: what is accepted of others
        may well be of use.
        """
        found = [*self._unknown(), *self._of_acceptances(known, considered)]
        return tuple(each for each in found if each is not None)

    def _judge(self, given: Hit) -> Hit:
        accepted, expired = self._acceptance(given)
        waved = None if self.protect else self._allowance(given)
        if given.severity is Severity.OFF:
            return replace(given, judged=Judgement.PASSED)
        if accepted is not None or waved is not None:
            text = _acceptance_text(accepted) if accepted is not None else f"--allow {waved}"
            return replace(given, judged=Judgement.ACCEPTED, accepted=text)
        refuses = given.severity is Severity.ERROR or self.mode == STRICT
        if not refuses or (self.mode == OFF and not self.protect):
            return replace(given, judged=Judgement.WARNED)
        if expired is not None:
            return replace(given, judged=Judgement.EXPIRED, accepted=_acceptance_text(expired))
        return replace(given, judged=Judgement.REFUSED)

    def _acceptance(self, given: Hit) -> tuple[Acceptance | None, Acceptance | None]:
        """Return an acceptance of a hit, or one that ran out."""
        expired = None
        for number, each in enumerate(self.policy.accepted):
            if not _is_about(each, given):
                continue
            self._used.add(number)
            if each.until < self.policy.today:
                self._expired.add(number)
                expired = each
            elif each.reason is not None or self.mode != STRICT:
                return each, None
        return None, expired

    def _allowance(self, given: Hit) -> str | None:
        for each in self.allowed:
            if each.code == given.code and (
                each.datasets is None or given.dataset in each.datasets
            ):
                return each.text
        return None

    def _protected_hits(self, judged: Hit) -> Iterator[Hit]:
        """Say that what the command line waved through does not pass."""
        if not self.protect or judged.judged not in (Judgement.REFUSED, Judgement.EXPIRED):
            return
        waved = self._allowance(judged)
        if waved is None and self.mode != OFF:
            return
        means = "--gate off" if waved is None else f"--allow {waved}"
        found = hit(
            PROTECTED_TARGET,
            judged.dataset,
            f"{means} does not accept {judged.code}: the target is protected",
            column=judged.column,
            span=judged.span,
        )
        found = replace(found, severity=self.severity(found))
        refused = found.severity is Severity.ERROR
        yield replace(found, judged=Judgement.REFUSED if refused else Judgement.WARNED)

    def _unknown(self) -> Iterator[Diagnostic | None]:
        for code in sorted(set(self.policy.gates.rules) - set(catalogue())):
            span = self.policy.gates.places.get(code)
            message = f"gates: there is no rule {code}"
            yield self._note(UNKNOWN_RULE, message, _nearest(code), span)
        for each in self.policy.accepted:
            if each.code not in catalogue():
                message = f"accept: there is no rule {each.code}"
                yield self._note(UNKNOWN_RULE, message, _nearest(each.code), each.span)
        for allowed in self.allowed:
            if allowed.code not in catalogue():
                message = f"--allow {allowed.text}: there is no rule {allowed.code}"
                yield self._note(UNKNOWN_RULE, message, _nearest(allowed.code))

    def _of_acceptances(
        self, known: Collection[DatasetAlias], considered: Collection[DatasetAlias] | None
    ) -> Iterator[Diagnostic | None]:
        for number, each in enumerate(self.policy.accepted):
            if each.code not in catalogue():
                continue
            about = f"{each.code} of {each.dataset}{f' ({each.column})' if each.column else ''}"
            if number in self._expired:
                message = f"the acceptance of {about} expired on {each.until}"
                yield self._note(ACCEPTANCE_EXPIRED, message, ACCEPTANCE_EXPIRED.ways[0], each.span)
            elif number not in self._used and (
                considered is None or each.dataset in considered or each.dataset not in known
            ):
                message = f"the acceptance of {about} matches nothing"
                yield self._note(ACCEPTANCE_UNUSED, message, ACCEPTANCE_UNUSED.ways[0], each.span)

    def _note(
        self, of: Rule, what: str, fix: str, span: SourceSpan | None = None
    ) -> Diagnostic | None:
        severity = self.policy.gates.rules.get(of.code, of.severity)
        if severity is Severity.OFF:
            return None
        return Diagnostic(
            code=of.code,
            what=what,
            why=of.explanation,
            fix=fix,
            span=span,
            level=Level.ERROR if severity is Severity.ERROR else Level.WARNING,
        )


def verdict(
    assessments: Mapping[DatasetAlias, Assessment], gate: str, notes: Sequence[Diagnostic] = ()
) -> Verdict:
    """Return the gate's answer; `notes` are those of the policy itself."""
    judged = [hit.judged for each in assessments.values() for hit in each.hits]
    levels = [each.level for each in notes if each.code in catalogue()]
    errors, warnings = levels.count(Level.ERROR), levels.count(Level.WARNING)
    strict, off = gate == STRICT, gate == OFF
    refused = sum(each in (Judgement.REFUSED, Judgement.EXPIRED) for each in judged)
    refused += 0 if off else errors + (warnings if strict else 0)
    warned = judged.count(Judgement.WARNED)
    warned += (errors if off else 0) + (0 if strict else warnings)
    return Verdict(gate, refused, warned, judged.count(Judgement.ACCEPTED))


def _is_about(accepted: Acceptance, given: Hit) -> bool:
    return (accepted.code, accepted.dataset, accepted.column) == (
        given.code,
        given.dataset,
        given.column,
    )


def _acceptance_text(accepted: Acceptance) -> str:
    reason = "" if accepted.reason is None else f": {accepted.reason}"
    return f"{accepted.span}, until {accepted.until}{reason}"


def _nearest(code: str) -> str:
    guess = did_you_mean(code, catalogue())
    return f"{guess} `odfbuild help` lists all rules".strip()
