"""A workspace in a store for many readers of one process: requests, cache, and outages."""
