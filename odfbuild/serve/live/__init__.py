"""The live page of a server: datasets, their rows and history, runs, and questions."""
