"""The parts of a dataset on disk: blocks, slices, head, index."""
