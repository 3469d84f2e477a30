"""F21: the fleet changes under load, and at every step of a change something befalls one node, an agent or the command.

Five nodes at first, never fewer than three, at most six. One node per change is struck, again and again: of a change is assumed that
fewer than a majority of the nodes forget meanwhile.
"""
import contextlib
import json
import time

from cases import case
from criteria import Expected, S
from rig import Redis, boottime_ns

TTL_S = 2
MOST_S = 90          # for one change, with its faults
STEP_MOST_S = 20     # before the next step is looked for
DONE, BUSY = 0, 75


class Operators:
    """They change the fleet, on any host, one change after the other. `strike` is called at every step of each."""

    def __init__(self, lab, strike, give_up=0.0, careless=0.0, gone=0.0):
        self.fleet = lab.fleet(ttl_s=TTL_S, nodes=5, holders=6, locks=12)
        self.run, self.random, self.strike = lab.run, self.fleet.random, strike
        self.give_up, self.careless, self.gone = give_up, careless, gone
        self.members = {node.id: node for node in self.fleet.nodes}
        self.made = self.done = self.refused = self.aborted = self.steps = 0
        self.longest_s, self.ttl_max_s, self.complaints, self.victim = 0.0, TTL_S, [], None

    # --- looking ---

    def told(self, host):
        result = self.run.holdfast("fleet", "--json", agent=host.agent, timeout_s=20)
        with contextlib.suppress(ValueError):
            return json.loads(result.out)["record"] if result.out else None
        return None

    def latest(self):
        """The latest record that an agent goes by."""
        records = [record for host in self.fleet.hosts if (record := self.told(host))]
        return max(records, key=lambda r: (r["version"], r["state"] == "complete"), default=None)

    def all_settled(self):
        """One record, settled on all hosts, with all nodes voting: whether the next change may begin anywhere."""
        records = [self.told(host) for host in self.fleet.hosts]
        if not all(r and r["state"] == "complete" and r["settles_ms"] is None for r in records):
            return False
        if len({r["digest"] for r in records}) != 1:
            return False
        for host in self.fleet.hosts:
            shown = self.run.holdfast("nodes", "--json", agent=host.agent, timeout_s=20)
            if shown.rc != 0 or not all(row["votes"] for row in shown.json["nodes"]):
                return False
        return True

    def wait_settled(self):
        end = time.monotonic() + MOST_S
        while not self.all_settled():
            if time.monotonic() > end:
                self.complaints.append(f"no rest after {self.made} changes: {[self.told(host) for host in self.fleet.hosts]}")
                return False
            time.sleep(0.1)
        return True

    def follow_members(self):
        """Who the nodes are now: a change may have been another operator's, or given up."""
        record = self.latest()
        by_seat = {node.seat: node for node in self.all}
        self.members = {seat["id"]: by_seat[seat["address"]] for seat in record["members"]}
        self.ttl_max_s = record["ttl_max_ms"] / 1000

    # --- changing ---

    def server(self):
        self.made += 1
        node = Redis(self.run, f"new{self.made}").start()
        self.all.append(node)
        return node

    def draw(self):
        """The words of a change, and the node that it is about."""
        kinds = ["move", "move", "ttl-max"] + ["add"] * 2 * (len(self.members) < 6) + ["remove"] * (len(self.members) > 3)
        kind = self.random.choice(kinds)
        node_id = self.random.choice(sorted(self.members))
        if kind == "ttl-max":
            return [kind, f"{TTL_S if self.ttl_max_s > TTL_S else TTL_S + 1}s"], None
        if kind == "add":
            free = next(f"n{i}" for i in range(1, 10) if f"n{i}" not in self.members)
            return [kind, f"{free}={self.server().address}"], None
        if kind == "remove":
            return [kind, node_id], self.members[node_id]
        return [kind, f"{node_id}={self.server().address}"], self.members[node_id]

    def change(self):
        """One change, with what befalls it, until it is over or refused."""
        host, (words, about) = self.random.choice(self.fleet.hosts), self.draw()
        began = time.monotonic()
        self.victim = self.random.choice(sorted(self.members.values(), key=lambda node: node.id))
        if about and self.random.random() < self.gone:
            about.kill()
            self.fleet.tell(f"{words[0]} of a node that is gone")
            words.append("--old-server-dead")
            time.sleep(0.5)
            if self.victim is about:
                self.victim = None
        before = self.latest()["version"]
        command = self.run.start_holdfast("fleet", *words, agent=host.agent)
        careless = self.random.random() < self.careless
        rival = self.rival(host) if self.random.random() < self.careless else None
        seen = set()
        while time.monotonic() < began + STEP_MOST_S:
            record = self.latest()
            step = record and (record["version"], record["state"], record["settles_ms"] is None)
            if step and step not in seen and record["version"] > before:
                seen.add(step)
                self.steps += 1
                if careless and command.running:
                    command.kill()
                self.strike(self)
                self.maybe_give_up(record)
                if step[2] and record["state"] == "complete":
                    break
            if not command.running and not careless and not seen:
                break
            time.sleep(self.random.uniform(0, 0.05))
        self.heal()
        code = command.wait(MOST_S)
        if rival:
            rival.wait(MOST_S)
        self.done += code == DONE
        self.refused += code == BUSY
        if code not in (DONE, BUSY, 69, 78, -9):
            self.complaints.append(f"fleet {' '.join(words)}: {code}, {command.err}")
        if not self.wait_settled():
            return False
        self.longest_s = max(self.longest_s, time.monotonic() - began)
        self.follow_members()
        return True

    def rival(self, host):
        """Another operator's, at once, on another host."""
        other = self.random.choice([h for h in self.fleet.hosts if h is not host])
        self.fleet.tell("two operators")
        return self.run.start_holdfast("fleet", "move", f"{self.random.choice(sorted(self.members))}={self.server().address}",
                                       agent=other.agent)

    def maybe_give_up(self, record):
        if record["state"] != "changing" or self.random.random() >= self.give_up:
            return
        self.fleet.tell("abort")
        result = self.run.holdfast("fleet", "abort", "--no-wait", agent=self.random.choice(self.fleet.hosts).agent, timeout_s=30)
        self.aborted += result.rc == DONE

    def heal(self):
        """Every server that is to run does: a member that died is replaced by an empty one at its address."""
        record = self.latest()
        wanted = {seat["address"] for seat in record["members"]} if record else set()
        for node in self.all:
            if not node.process.running and node.seat in wanted:
                node.start()

    # --- the whole ---

    def work(self, lab):
        fleet = self.fleet
        self.all = list(fleet.nodes)
        fleet.start_crew(hold_ms=1, pause_ms=4, long_ms=400 * TTL_S)
        for host in fleet.hosts:
            fleet.start_keepers(host, 1, careless=0, wait=False)
        end = time.monotonic() + lab.seconds
        self.wait_settled()
        while time.monotonic() < end and self.change():
            pass
        calm_ns = boottime_ns()
        rest_s = fleet.quarantine_s + 2 * TTL_S + 2
        time.sleep(rest_s)
        fleet.nodes = list(self.members.values())
        record = fleet.finish()
        lab.row.add(record, Expected(losses=None, calm_ns=calm_ns, back_s=rest_s, everyone=True, wait_s=None))
        lab.row.blame({"P6": self.complaints})
        lab.row.figures["changes"] = f"{self.done} done, {self.refused} not, {self.aborted} given up, {self.steps} steps"
        lab.row.figures["longest"] = f"{self.longest_s:.0f} s"
        lab.row.figures["seconds"] = round((record.ended_ns - record.started_ns) / S)


# --- what befalls ----------------------------------------------------------------------------------------


def flush(operators):
    node = operators.victim
    if node and node.process.running:
        operators.fleet.flush(node)


def kill(operators):
    """It comes back empty, a moment later or when the change is over."""
    node = operators.victim
    if not node or not node.process.running:
        return
    operators.fleet.kill_node(node)
    if operators.random.random() < 0.7:
        time.sleep(operators.random.uniform(0, 0.5 * TTL_S))
        operators.fleet.start_node(node)


def strike_agent(operators):
    host = operators.random.choice(operators.fleet.hosts)
    if operators.random.random() < 0.3:
        operators.fleet.stop_agent(host, operators.random.uniform(0.05, 0.8 * TTL_S))
    else:
        operators.fleet.kill_agent(host, operators.random.uniform(0, 0.3 * TTL_S))


def nothing(_operators):
    pass


def anything(operators):
    operators.random.choice((flush, kill, strike_agent, nothing))(operators)


@case("F21", "changes under load: one node is flushed at every step")
def flushed(lab):
    Operators(lab, flush).work(lab)


@case("F21", "changes under load: one node is killed at every step, empty when it is back")
def killed(lab):
    Operators(lab, kill, gone=0.2).work(lab)


@case("F21", "changes under load: agents are killed or stopped at every step")
def agents(lab):
    Operators(lab, strike_agent).work(lab)


@case("F21", "changes under load: commands die, two operators at once, changes given up")
def commands(lab):
    Operators(lab, nothing, give_up=0.4, careless=0.4).work(lab)


@case("F21", "changes under load: all of that")
def everything(lab):
    Operators(lab, anything, give_up=0.1, careless=0.15, gone=0.1).work(lab)
