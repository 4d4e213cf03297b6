"""Merging of sources into histories, as far as it is the same in every engine."""
