"""Smart Transfer Protocol of a server: pulls and pushes over WebSockets."""
