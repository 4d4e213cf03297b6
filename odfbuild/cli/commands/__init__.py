"""The bodies of commands, in groups as the help shows them."""
