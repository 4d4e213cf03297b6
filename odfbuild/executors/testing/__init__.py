"""Tests of datasets: files of tests, fixtures through the engine, checks on rows."""
