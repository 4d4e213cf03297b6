"""Plans of a project, made or remembered, and what they rest on."""
