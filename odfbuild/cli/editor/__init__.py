"""Language server: diagnostics, completion and navigation for the definitions of a project."""
