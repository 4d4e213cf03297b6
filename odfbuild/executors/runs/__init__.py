"""Runs: the scheduler, their records and reports, resuming, OpenLineage."""
