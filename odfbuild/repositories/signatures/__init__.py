"""Signed heads: envelopes, statements, delegations, and which of them are trusted.

`judge` of `trust` is the decision, a function of what was found and what is remembered; `memory`
keeps that, `attestation` reads what was found.  What signs is in `signing`.
"""
