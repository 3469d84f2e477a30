"""The owner's check: of one lease in turns with a bare clock read, its system calls as strace sees them, and of random ones
of a million, beside random cache lines of the same memory; there the look-up of a name, too."""
import shutil
import subprocess
import tempfile

from fleet import Fleet


def calls_of_checks(fleet, checks):
    """System calls between the two getppid() that `bench check` makes around so many checks; None without strace."""
    if not shutil.which("strace"):
        return None
    with tempfile.NamedTemporaryFile("r") as trace:
        argv = ["strace", "-f", "-o", trace.name, f"{fleet.build}/bin/bench", "check", fleet.names[0], str(checks)]
        if subprocess.run(argv, env=fleet.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode:
            return None  # not allowed to trace
        return len(trace.read().split("getppid()")[1].splitlines()) - 2


def measure(lines, options):
    checks, leases, rounds = (20_000, 20_000, 20_000) if options.quick else (300_000, 1_000_000, 500_000)
    with Fleet(options.build, 3, agents=1, lines=lines) as fleet:
        fleet.measure("check", fleet.names[0], checks)
        lines.say({"bench": "system calls", "checks": checks, "calls": calls_of_checks(fleet, checks)})
        fleet.measure("table", leases, rounds)
