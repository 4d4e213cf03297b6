"""Queries composed of grammar over random histories, each held against plain batch SQL."""
