"""The planner, pure: declared datasets and current chains in, a Plan out."""
