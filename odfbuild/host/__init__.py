"""What the machine is asked for with care: files, pipes, permissions of its user, JSON texts."""
