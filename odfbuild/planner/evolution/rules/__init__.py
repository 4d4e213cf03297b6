"""Numbered rules on changes, and their checks."""
