"""Sources to blocks: fetch, prepare, read, merge, commit."""
