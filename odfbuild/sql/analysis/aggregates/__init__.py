"""Aggregates that are kept as state."""
