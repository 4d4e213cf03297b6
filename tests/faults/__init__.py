"""Fault harnesses: what an apply leaves when the machine fails it, checked after every fault.

    calls    kill and torn write at every call, each errno 1,000 times; first and second apply
    replay   every state that strict POSIX permits after a power cut, from recorded calls
    power    real power cuts of ext4, xfs and btrfs on loop devices (root only)
    spark    a sample of kills and errors in runs with Spark, in Python and in the JVM
    races    real processes at once on one workspace, with leases and without
    processes    the command line in real processes at once, some cut off or without output
    looks    verify again and again beside commands that rewrite and collect, in a folder
    machines    two machines with one bucket of a real server, which are killed, and the server, too
    clusters    workers, drivers, commands and store of a cluster without a shared folder are killed
    sabotage    products that are broken on purpose, which `machines` has to find
    schedules    2 to 8 commands, switched where others can see what is done, by a scheduler

`make faults` runs them all at length; `python -m tests.faults.run NAME --rounds N` some of them;
`python -m tests.faults.NAME --help` says what else one can be asked.  `make test` has a little of
each (test_faults.py), `make test-long` all of it.

How it works: `preload.c` is a library for LD_PRELOAD, built by `preload.py` with the C compiler of
the machine; at the N-th call below a folder it kills, tears, fails, or takes the file system away,
and it can record calls with their data.  `server.py` runs commands with the engine of the tests by
fork, so that one takes a third of a second.  `workload.py` has the five datasets, `trial.py` lays
them out again and again and counts, `disk.py` is the model of a disk.

What has to hold (`invariants.py`): the command ends in time, without a traceback, and with 0 only
if all is done; each chain is whole, every object with its hash, and lies between what it was before
and what an undisturbed apply makes of it; nothing is locked; the next apply ends with 0 and the
rows of an undisturbed one; there is nothing to do after it; gc leaves no leftovers.
"""
