"""Spark Connect: sessions of a server that somebody else runs, without Java on this machine.

`server` opens sessions by a `channel`, and holds their settings against ours; `plugin` is what the
server has to load.  What steps then ask of a session is in `cluster.remote`.
"""
