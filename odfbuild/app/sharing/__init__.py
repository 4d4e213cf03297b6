"""Datasets of a project and of others: pulled, pushed, and looked for in repositories."""
