"""Inputs to blocks: the columns of each input, checkpoints, the step."""
