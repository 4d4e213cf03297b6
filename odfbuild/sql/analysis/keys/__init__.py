"""Keys that rows of a result belong to."""
