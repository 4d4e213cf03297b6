"""Effects that make data: fetch, prepare, read, merge, transform, seal, verify."""
