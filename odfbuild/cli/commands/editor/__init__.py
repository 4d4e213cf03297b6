"""Commands for editors: the language server."""
