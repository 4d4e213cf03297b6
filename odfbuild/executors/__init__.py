"""What carries out plans: sources to blocks, inputs to blocks, checks of what was written."""
