"""Arguments of commands: options, the project, scopes and selections."""
