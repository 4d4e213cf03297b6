"""The one rule: after every step, what the changelogs stand for is what one batch query gives."""
