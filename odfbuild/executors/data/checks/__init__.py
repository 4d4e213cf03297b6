"""Checks of data files: their bytes, rows, operations."""
