"""OpenLineage events of runs, and where they are sent."""
