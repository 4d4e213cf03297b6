"""What a person sees while a command works, and signals that end it."""
