"""Templates of a project: their execution, and which part of them wrote what."""
