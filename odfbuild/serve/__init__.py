"""A server of the datasets in a workspace: the simple protocol, and the smart transfer protocol.

`settings` has the workspace and the limits, `tokens` and `access` the permissions of callers.
`application` puts the routes together, `process` runs them until a signal.  The libraries behind it
come with an extra and are imported when a server starts.
"""
