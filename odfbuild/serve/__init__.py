"""A server of the datasets in a workspace: the simple protocol, and the smart transfer protocol.

`settings` says what is served and within which limits, `tokens` and `access` who may do what.
`application` puts the routes together, `process` runs them until a signal.  The libraries behind it
come with an extra and are imported when a server starts.
"""
