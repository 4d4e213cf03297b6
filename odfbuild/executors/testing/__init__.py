"""Tests of datasets: fixtures through the engine, checks on rows."""
