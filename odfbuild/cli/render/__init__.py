"""Texts for people: plans, runs, datasets, differences, diagnostics."""
