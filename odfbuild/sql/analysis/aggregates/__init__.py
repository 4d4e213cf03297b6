"""Aggregates whose state is stored."""
