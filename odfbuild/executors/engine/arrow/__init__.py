"""Operators of incremental steps over rows in memory."""
