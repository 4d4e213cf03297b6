"""Parts of messages: texts without credentials, and suggestions for mistyped names."""
