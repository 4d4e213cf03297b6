"""Services of the machine, used with care: files, pipes, permissions of its user, JSON texts."""
