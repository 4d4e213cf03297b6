"""Terminal: console, progress events, streams, and signals that end a command."""
