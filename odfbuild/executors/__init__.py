"""Execution of plans: sources to blocks, inputs to blocks, checks of what was written."""
