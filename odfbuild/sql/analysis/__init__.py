"""Meaning of a query for an incremental step: its class, keys, sums, order and findings."""
