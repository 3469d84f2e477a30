"""A network that can be cut: the nodes in one network namespace, each host's agent in another, cables between them.

Nothing of it is in the machine's own namespace, and all of it goes when the processes that keep the namespaces end. The nodes
answer the tests on their unix sockets, which no cut touches. Needs root, nft and, for delays, iptables and nfqdelay.
"""
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from rig import BUILD, Skip, wait_until  # noqa: E402

NODE_NET, HOST_NET = "10.77.0.{}", "10.77.1.{}"
TABLE = """
table inet cut {
    chain to { type filter hook output priority 0; }
    chain from { type filter hook input priority 0; }
}
"""


class Network:
    def __init__(self, run, nodes, hosts):
        for tool in ("nft", "ip", "nsenter", "unshare"):
            if not shutil.which(tool):
                raise Skip(f"there is no {tool}")
        self.run, self.delayers = run, {}
        self.keepers = {name: self.keep(name) for name in ["nodes", *(f"host{i}" for i in range(hosts))]}
        self.inside("nodes", "ip", "link", "add", "bridge", "type", "bridge")
        for i in range(nodes):
            self.inside("nodes", "ip", "address", "add", f"{self.node_address(i)}/16", "dev", "bridge")
        self.inside("nodes", "ip", "link", "set", "bridge", "up")
        for i in range(hosts):
            self.cable(i)

    def keep(self, name):
        """A process that keeps a namespace, with its loopback up."""
        keeper = self.run.spawn("unshare", "-n", "sh", "-c", "ip link set lo up && echo ready && exec sleep infinity",
                                label=f"netns-{name}")
        keeper.wait_out("ready")
        return keeper

    def cable(self, host):
        near = str(self.keepers[f"host{host}"].pid)
        self.inside("nodes", "ip", "link", "add", f"host{host}", "type", "veth", "peer", "name", "cable", "netns", near)
        self.inside("nodes", "ip", "link", "set", f"host{host}", "master", "bridge", "up")
        self.inside(f"host{host}", "ip", "address", "add", f"{HOST_NET.format(host + 1)}/16", "dev", "cable")
        self.inside(f"host{host}", "ip", "link", "set", "cable", "up")
        self.mend(host)

    @staticmethod
    def node_address(index):
        return NODE_NET.format(index + 11)

    def prefix(self, name):
        """What makes a command run in that namespace: "nodes" or "host0"..."""
        return ["nsenter", "-t", str(self.keepers[name].pid), "-n"]

    def inside(self, name, *argv, text=None):
        done = subprocess.run([*self.prefix(name), *argv], input=text, text=True, capture_output=True, check=False)
        assert done.returncode == 0, f"{' '.join(argv)}: {done.stderr}"

    # --- cuts, seen from a host ---

    def cut(self, host, node_indices, direction="both", how="drop"):
        """Packets to and from these nodes are gone (how="drop") or refused ("reject with tcp reset"). `direction`: "to",
        "from" or "both"; of "from" a new connection still gets its first answer, as where only data are lost."""
        rules = ""
        for index in node_indices:
            address = self.node_address(index)
            if direction in ("to", "both"):
                rules += f"add rule inet cut to ip daddr {address} {'meta l4proto tcp ' if 'reset' in how else ''}{how}\n"
            if direction == "both":
                rules += f"add rule inet cut from ip saddr {address} drop\n"
            if direction == "from":
                rules += f"add rule inet cut from ip saddr {address} tcp flags & syn == 0 drop\n"
        self.inside(f"host{host}", "nft", "-f", "-", text=rules)

    def lose(self, host, node_indices, percent):
        """A random part of what comes from these nodes is lost."""
        rules = "".join(f"add rule inet cut from ip saddr {self.node_address(index)} numgen random mod 100 < {percent} drop\n"
                        for index in node_indices)
        self.inside(f"host{host}", "nft", "-f", "-", text=rules)

    def mend(self, host):
        """No cuts."""
        self.inside(f"host{host}", "nft", "-f", "-", text=f"add table inet cut\ndelete table inet cut\n{TABLE}")

    def unplug(self, host, plugged=False):
        self.inside("nodes", "ip", "link", "set", f"host{host}", "up" if plugged else "down")

    # --- delays, at a node ---

    def delay(self, index, delay_ms, jitter_ms=0):
        """What this node sends takes so much longer."""
        program = BUILD / "tests" / "nfqdelay"
        if not program.exists() or not shutil.which("iptables"):
            raise Skip("there is no nfqdelay or no iptables")
        process = self.run.spawn(*self.prefix("nodes"), program, index, delay_ms, jitter_ms, label=f"delay-{index}")
        wait_until(lambda: process.out or not process.running, what="nfqdelay is ready")
        if not process.running:
            raise Skip(f"no netfilter queues here: {process.err.strip()}")
        self.rule(index, "-A")
        self.delayers[index] = process

    def undelay(self, index):
        self.rule(index, "-D")
        self.delayers.pop(index).kill()

    def rule(self, index, action):
        self.inside("nodes", "iptables-nft", action, "OUTPUT", "-s", self.node_address(index), "-j", "NFQUEUE",
                    "--queue-num", str(index), "--queue-bypass")
