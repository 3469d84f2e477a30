"""What a run ran on, and with."""
import os
import pathlib
import platform
import re
import subprocess
import time



def said(*argv):
    """The first line that a program prints; None where there is none."""
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()[0].strip()
    except (OSError, subprocess.CalledProcessError, IndexError):
        return None


def found(path, pattern):
    try:
        match = re.search(pattern, pathlib.Path(path).read_text(), re.M)
    except OSError:
        return None
    return match.group(1).strip() if match else None


def machine(build):
    source = found(build / "CMakeCache.txt", r"^CMAKE_HOME_DIRECTORY:\w+=(.*)$") or "."
    changed = said("git", "-C", source, "status", "--porcelain", "--untracked-files=no")
    redis = said("redis-server", "--version") or ""
    return {
        "bench": "machine", "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "kernel": platform.release(),
        "processor": found("/proc/cpuinfo", r"^model name\s*:(.*)$"), "cores": os.cpu_count(),
        "hypervisor": said("systemd-detect-virt") or found("/proc/cpuinfo", r"\b(hypervisor)\b"),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "clock": found("/sys/devices/system/clocksource/clocksource0/current_clocksource", r"(.*)"),
        "commit": (said("git", "-C", source, "rev-parse", "--short=12", "HEAD") or "?") + ("+" if changed else ""),
        "build_type": found(build / "CMakeCache.txt", r"^CMAKE_BUILD_TYPE:\w+=(.*)$"), "compiler": said("cc", "--version"),
        "redis": found_in(redis, r"v=(\S+)"), "hiredis": said("pkg-config", "--modversion", "hiredis"),
        "node": said("node", "--version"), "python": platform.python_version(), "load": load()}


def found_in(text, pattern):
    match = re.search(pattern, text)
    return match.group(1) if match else None


def load():
    return round(os.getloadavg()[0], 2)
