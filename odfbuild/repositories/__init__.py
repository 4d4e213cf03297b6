"""Repositories: where datasets are shared, and how chains move between them and a workspace.

A `ChainSource` gives a chain and its files, a `ChainTarget` also takes them (`protocol`);
transports are in `transports`, the smart protocol in `smart`.  What comes from elsewhere enters a
workspace through `intake` only.
"""
