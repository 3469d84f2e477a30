#!/usr/bin/env python3
"""A store that refuses whoever writes with an old lock.

    fenced_store.py FILE put KEY VALUE    exit 3: refused, a later holder of the lock has written
    fenced_store.py FILE get KEY          exit 1: there is no such key

A job of `holdfast run` finds its lock in $HOLDFAST_NAME and its fencing number in $HOLDFAST_FENCE; numbers rise with
every grant of a lock, on all hosts. A check before a write ("do I still hold it?") is not enough: the process can be
paused between the two, by a suspend or a VM's snapshot, for longer than its lock lives. What it writes then carries a
number that is lower than what the next holder has written with, and the store can tell, in the same transaction.

Each lock has a number of its own, and so has each slot of a counted lock: the highest one is kept per name.
"""
import os
import sqlite3
import sys


def connect(path):
    db = sqlite3.connect(path, timeout=30, isolation_level=None)
    db.execute("CREATE TABLE IF NOT EXISTS fences (lock TEXT PRIMARY KEY, highest INTEGER NOT NULL)")
    db.execute("CREATE TABLE IF NOT EXISTS things (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
    return db


def put(db, lock, fence, key, value):
    """False: an old fence. The comparison and the write are one transaction."""
    db.execute("BEGIN IMMEDIATE")
    row = db.execute("SELECT highest FROM fences WHERE lock = ?", (lock,)).fetchone()
    if row and fence < row[0]:
        db.execute("ROLLBACK")
        return False
    db.execute("INSERT OR REPLACE INTO fences VALUES (?, ?)", (lock, fence))
    db.execute("INSERT OR REPLACE INTO things VALUES (?, ?)", (key, value))
    db.execute("COMMIT")
    return True


def main():
    if len(sys.argv) == 5 and sys.argv[2] == "put":
        lock, fence = os.environ.get("HOLDFAST_NAME"), os.environ.get("HOLDFAST_FENCE")
        if not lock or not fence:
            sys.exit("fenced_store: to write take a lock: holdfast run NAME ...")
        if not put(connect(sys.argv[1]), lock, int(fence), *sys.argv[3:]):
            print(f"fenced_store: refused: {lock} had a later holder than the one with fence {fence}", file=sys.stderr)
            sys.exit(3)
    elif len(sys.argv) == 4 and sys.argv[2] == "get":
        row = connect(sys.argv[1]).execute("SELECT value FROM things WHERE key = ?", sys.argv[3:]).fetchone()
        if not row:
            sys.exit(1)
        print(row[0])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
