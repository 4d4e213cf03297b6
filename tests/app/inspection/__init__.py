"""Tests of reading from Python, and what they share."""

from typing import Final

HOSTILE: Final = '<img src=x onerror="alert(1)">'
"""A value that is no text to a page that takes it for markup."""
