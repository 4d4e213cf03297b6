"""Report of jobs that a store did not let odfbuild delete."""

import sys

from odfbuild.app.plan.step_placement import kept_jobs
from odfbuild.cli.render.diagnostics import render_diagnostics


def report_kept_jobs() -> None:
    """Write to stderr which jobs were left, if any were."""
    kept = kept_jobs()
    if kept:
        sys.stderr.write(f"{render_diagnostics(kept)}\n")
