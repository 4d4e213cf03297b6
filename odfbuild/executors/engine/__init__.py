"""Engines: their protocol, and steps done in Arrow and in Spark."""
