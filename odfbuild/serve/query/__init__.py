"""Questions in SQL over HTTP: answers, and proofs of them."""
