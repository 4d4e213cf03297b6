"""Answers about a project and its datasets: explanation, difference, drift, query."""
