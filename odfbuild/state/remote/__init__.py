"""Object stores: a client, and workspaces whose truth is in one."""
