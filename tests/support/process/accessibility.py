"""The rules of axe-core, which look at a page in a browser."""

import json
from importlib.resources import files

from tests.support.process.chromium import Page

__all__ = ["violations"]

_RUN = """
axe.run(document, {resultTypes: ['violations']}).then(found => JSON.stringify(
  found.violations.flatMap(rule => rule.nodes.map(
    node => [rule.id, rule.impact, node.html, node.failureSummary].join(' | ')))))
"""


def violations(page: Page) -> list[str]:
    """Return what breaks rules of WCAG A and AA, or good practice: rule, weight, element, why."""
    script = (files("axe_core_python") / "axe.min.js").read_text("utf-8")
    page.evaluate(f"{script}; 0")
    found: list[str] = json.loads(page.evaluate(_RUN))
    return found
