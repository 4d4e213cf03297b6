"""The page of a server: datasets, their rows and history, runs, and questions, as they are now."""
