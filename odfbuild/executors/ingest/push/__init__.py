"""Rows that are pushed: sources, ids, spooled inputs."""
