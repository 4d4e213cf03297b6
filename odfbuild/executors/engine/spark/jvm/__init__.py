"""The Java process: how it is found, started, shared and ended."""
