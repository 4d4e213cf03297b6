"""The whole program, as a user has it: examples, months of work, kills, the API, the wheel."""
