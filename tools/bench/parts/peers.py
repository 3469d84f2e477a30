"""Other libraries that lock on the same nodes: redis-py of Debian, node-redlock and redis-semaphore of npm. For the parts."""
import functools
import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[3]
PEERS = pathlib.Path(__file__).resolve().parent.parent / "peers"


@functools.cache
def programs():
    """How each is started; without what is not installed."""
    found = {}
    installed = subprocess.run([ROOT / "tests/interop/install"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if installed.returncode == 0:
        env = {**os.environ, "MODULES": installed.stdout.strip()}
        found.update({name: (["node", PEERS / "node.mjs", name], env) for name in ("node-redlock", "redis-semaphore")})
    if subprocess.run(["/usr/bin/python3", "-c", "import redis"], stderr=subprocess.DEVNULL, check=False).returncode == 0:
        found["redis-py"] = ["/usr/bin/python3", PEERS / "redis_py.py"], None
    return found


def take_turns(fleet, lines, *what):
    """Each of them once: "one" CYCLES, or "many" MILLISECONDS CLIENTS."""
    for argv, env in programs().values():
        argv = [*argv, *map(str, what), *fleet.addresses]
        lines.say(json.loads(subprocess.run(argv, env=env, stdout=subprocess.PIPE, check=True).stdout))
