"""Fetching of inputs from files, HTTP, FTP and containers."""
