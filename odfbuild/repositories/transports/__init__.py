"""Transports to a dataset elsewhere: one module a scheme."""
