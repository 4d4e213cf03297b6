"""Columns from one definition to the next, and who uses them."""
