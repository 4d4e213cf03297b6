"""Inputs of sources, brought from files, HTTP, FTP and containers."""
