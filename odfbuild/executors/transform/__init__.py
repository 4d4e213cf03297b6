"""Inputs to blocks: the interval of each input, checkpoints, the step."""
