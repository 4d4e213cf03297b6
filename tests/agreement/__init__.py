"""What plan passes, apply carries out; whatever check refuses, plan refuses: random projects.

`python -m tests.agreement --projects N --from SEED` runs many without a JVM, with `--spark` on
Spark; it prints what differs and goes on.
"""
