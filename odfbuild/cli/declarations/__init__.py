"""The commands as the command line declares them: arguments, options and help."""
