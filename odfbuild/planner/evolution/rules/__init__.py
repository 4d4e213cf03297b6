"""Numbered rules on changes, and what they find."""
