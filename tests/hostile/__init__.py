"""Attacks by boundary; each test names the sentence of docs/security.md that it holds.

A module is a boundary: `test_sql.py`, `test_git.py` and so on.  A test carries
`@pytest.mark.holds("sql-process")`, whose argument is the name of a sentence; several cases of one
attack are parameters of one test.  Tests elsewhere under `tests/` may carry the mark as well.
`test_sentences.py` walks both sides, `python -m tests.hostile` counts the cases.
"""

CANARY_NAME = "ODFBUILD_TEST_CANARY"
CANARY = "canary-5d1f3a"
