"""What a command is given: options, the project, scopes and selections."""
