"""Caches and memories beside the chains, which can be rebuilt at any time."""
