"""Ways to a dataset elsewhere, against real servers."""
