"""What messages are made of: texts without credentials, and names that a mistyped one may mean."""
