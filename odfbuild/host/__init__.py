"""Access to the machine: files, pipes, folders and permissions of its user, texts of JSON."""
