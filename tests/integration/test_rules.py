#!/usr/bin/env python3
"""Who may take, see and force which names: the rules of the configuration, and users who would go round them."""
import json
import pathlib
import re
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from events import history  # noqa: E402
from rig import BUILD, HolderError, main, scenario, wait_until  # noqa: E402
from views import counters  # noqa: E402

ALICE, BOB, EVE = 65531, 65532, 65533
STAFF, DBA = 65521, 65522
EPERM, ENAME = -104, -102


def begin(run, *rules, **settings):
    """Three nodes, and an agent of the system that reads these rules from a file."""
    if not run.nodes:
        run.redis(3)
    write(run, *rules, **settings)
    run.runtime_dir.chmod(0o755)
    run.dir.chmod(0o755)
    return run.agent(nodes=[], system=True, options=("--config", run.dir / "agent.conf"))


def write(run, *rules, **settings):
    settings = {"ttl": "5s", "ttl_max": "10s", **settings}
    lines = [f"node = {node.id}={node.address}" for node in run.nodes]
    lines += [f"{key} = {value}" for key, value in settings.items()] + [f"allow = {rule}" for rule in rules]
    (run.dir / "agent.conf").write_text("\n".join(lines) + "\n")


def reload(run, *rules):
    write(run, *rules)
    result = run.holdfast("reload")
    assert result.rc == 0, result
    return result.out


def socket_of(run):
    return run.runtime_dir / run.agents[0].name / "sock"


def as_user(run, uid, *args, groups=(), gid=None, start=False, **options):
    """A command of that user."""
    env = {"HOLDFAST_AGENT": socket_of(run)}
    return (run.start_holdfast if start else run.holdfast)(*args, uid=uid, env=env, extra_groups=list(groups), group=uid if gid is None else gid, **options)


def takes(run, uid, name, **options):
    """Takes the lock for a moment: the exit code and what was said."""
    return as_user(run, uid, "run", "-n", name, "--", "true", **options)


def may(run, uid, name, **options):
    result = takes(run, uid, name, **options)
    assert result.rc == 0, result


def may_not(run, uid, name, **options):
    result = takes(run, uid, name, **options)
    assert result.rc == 77, result
    return result.err


def holder_of(run, uid, **options):
    holder = run.holder(uid=uid, connect=False, **options)
    holder.cmd("connect", socket_of(run))
    return holder


def refusal(call):
    """The code and the words with which a holder's command is refused."""
    try:
        call()
    except HolderError as error:
        return error.code, error.text
    raise AssertionError("it was not refused")


def impostor(run, uid, *words):
    """What it printed."""
    process = run.spawn(BUILD / "tests" / "impostor", socket_of(run), *words, label="impostor", uid=uid)
    assert process.wait() == 0, process.err
    return process.out


def statuses(said):
    return [int(code) for code in re.findall(r"^status (-?\d+)", said, re.M)]


# --- take -----------------------------------------------------------------------------------------------


@scenario("a name is for whom its rule names, as user, by the first group or another one; the refusal says the rule and what to do; "
          "names without a rule are everybody's", needs_root=True)
def whom_a_rule_names(run):
    agent = begin(run, f"db/open/* everyone", f"db/* user:{ALICE} group:{STAFF} group:{DBA}", "secret none")
    may(run, ALICE, "db/x")
    may(run, BOB, "db/x", gid=STAFF)
    may(run, BOB, "db/x", groups=[7, DBA])
    may(run, BOB, "db/x", groups=[*range(70000, 70200), DBA])  # more than most have
    may(run, EVE, "db/open/x")
    may(run, EVE, "other")
    may(run, 0, "secret")
    for name in ("db/x", "db/", "db/a/b/c"):
        said = may_not(run, EVE, name)
        for word in (name, f"have user {EVE} added to the agent's rule", f"allow = db/* user:{ALICE} group:{STAFF}",
                     f"or run as one whom it names: it may not take {name}"):
            assert word in said, (word, said)
    said = may_not(run, ALICE, "secret")
    assert '"allow = secret none": it may not take secret' in said, said
    assert may_not(run, EVE, "db/x", gid=7) and may_not(run, EVE, "db/x", groups=[7, 8])
    # A wait is no way round it, nor does it last.
    started = time.monotonic()
    result = as_user(run, EVE, "run", "-w", "60", "db/x", "--", "true")
    assert result.rc == 77 and time.monotonic() - started < 10, result
    # The operator hears of it.
    told = [event for event in history(run) if event["event"] == "denied"]
    assert len(told) == 7 and {event["right"] for event in told} == {"take"}, told
    assert told[0]["name"] == "db/x" and told[0]["uid"] == EVE and told[0]["pid"], told[0]
    assert f"user {EVE} (pid {told[0]['pid']}) may not take it" in run.holdfast("history", "db/x").out
    assert counters(run)["requests_denied"] == 7
    metrics = run.holdfast("metrics").out
    assert re.search(r'holdfast_acquires_failed_total\{[^}]*reason="denied"\} 7\n', metrics), metrics
    assert f"user {EVE} (process {told[0]['pid']}) may not take db/x: allow = db/* user:{ALICE} group:{STAFF} group:{DBA}" in agent.err


@scenario("what counts is whom the kernel says: not what is written into memory, not the user that a process becomes, and a lease of a "
          "session that was passed on ends with the process that made it", needs_root=True)
def impostors(run):
    begin(run, f"db/* user:{ALICE}")
    assert statuses(impostor(run, EVE, "forged", "db/x")) == [EPERM, EPERM]
    assert counters(run)["requests_denied"] == 2
    # A process keeps the rights with which it attached, until it attaches anew: fewer or more.
    assert statuses(impostor(run, 0, "became", EVE, "db/x")) == [0]
    # Whoever passes on an attached session passes on what it may, as with any open file. It ends with who attached.
    said = impostor(run, None, "passed", EVE, "db/x")
    assert statuses(said) == [0] and said.endswith("gone\n"), said
    run.keys_gone("db/x")
    run.holder().acquire("db/x")  # root may


@scenario("root's group is not root, a user's number is not a group's, and a rule of numbers is of those numbers", needs_root=True)
def root_group(run):
    begin(run, "db/* none", f"u user:{ALICE}", f"g group:{BOB}", f"f user:{ALICE} force")
    may_not(run, EVE, "db/x", gid=0)
    may_not(run, EVE, "db/x", groups=[0])
    may_not(run, EVE, "u", gid=ALICE)
    may_not(run, BOB, "g", gid=EVE)
    may(run, EVE, "g", gid=BOB)
    may(run, EVE, "f")


@scenario("names that look alike are not alike: bytes count, and a name that has another's key is refused as ever", needs_root=True)
def alike(run):
    long = "db/" + "x" * 252
    begin(run, f"db/* user:{ALICE}", f"\\xc3\\xa4* user:{ALICE}", f"a\\*b user:{ALICE}", f"orders/* user:{ALICE}", f"q?q user:{ALICE}",
          key_format_for="orders/* redlock:%s")
    for name in ("db/", "db//", "db/../other", "db/%00", "db/x%00y", "db/%ff", "db/%0a", "db/*", long, "%c3%a4", "%c3%a4/x", "a*b", "orders/17",
                 "q%00q", "q%c3q"):
        assert statuses(impostor(run, EVE, "forged", name))[0] == EPERM, name
    for name in ("DB/x", "/db/x", "./db/x", " db/x", "db", "dbx", "a%cc%88", "%c3%84", "axb", "ab", "orders", "q%c3%a4q", "%00db/x", "x" * 255):
        assert statuses(impostor(run, EVE, "forged", name))[0] == 0, name
    # It would be the key of orders/17.
    assert statuses(impostor(run, EVE, "forged", "redlock:orders/17")) == [ENAME, ENAME]
    assert statuses(impostor(run, EVE, "forged", "")) == [ENAME, ENAME]
    may(run, ALICE, "db/../other")


@scenario("sets and counted locks: one name that is another's refuses the set, and nothing of it stays held; a rule for a counted lock is "
          "for its slots", needs_root=True)
def several(run):
    begin(run, f"db/* user:{ALICE}", f"pool user:{ALICE}")
    result = as_user(run, EVE, "run", "-n", "--also", "db/x", "mine", "--", "true")
    assert result.rc == 77 and "db/x" in result.err, result
    result = as_user(run, EVE, "run", "--also", "mine", "db/x", "--", "true")
    assert result.rc == 77, result
    run.keys_gone("mine")
    assert run.show("mine") is None
    result = as_user(run, ALICE, "run", "-n", "--slots", "3", "pool", "--", "true")
    assert result.rc == 0, result
    for options in (["-n"], []):
        result = as_user(run, EVE, "run", *options, "--slots", "3", "pool", "--", "true")
        assert result.rc == 77 and "pool#" in result.err and f'"allow = pool user:{ALICE}"' in result.err, result
    may_not(run, EVE, "pool#0")
    may_not(run, EVE, "pool#17")
    may(run, EVE, "pool#")
    may(run, EVE, "pool2")


# --- a reload, a restart --------------------------------------------------------------------------------


@scenario("a reload applies rules at once: leases stay, who waits and may not any more is told so, new takes are refused", needs_root=True)
def by_reload(run):
    begin(run)
    alice = holder_of(run, ALICE)
    lease = alice.acquire("db/x")["lease"]
    alice.acquire("db/later")
    waiting = as_user(run, EVE, "run", "db/x", "--", "true", start=True)
    waiting.wait_err("waiting")
    elsewhere = as_user(run, EVE, "run", "db/away", "--", "true", start=True)  # rounds are made for this one
    patient = as_user(run, BOB, "run", "db/x", "--", "true", start=True)
    patient.wait_err("waiting")
    for node in run.nodes:
        node.cmd("SET", "db/afar", "x", "PX", "60000")
    afar = as_user(run, EVE, "run", "db/afar", "--", "true", start=True)
    afar.wait_err("waiting")
    assert elsewhere.wait() == 0
    said = reload(run, f"db/* user:{BOB}")
    assert f"allow = db/* user:{BOB} (was unset)" in said, said
    for process in (waiting, afar):
        assert process.wait(10) == 77 and f'"allow = db/* user:{BOB}"' in process.err, process.err
    assert patient.running and alice.held(lease)
    time.sleep(2)  # it is renewed as before
    assert alice.held(lease) and run.show("db/x")["state"] == "held"
    assert refusal(lambda: alice.acquire("db/new"))[0] == EPERM
    # The next in the queue gets it, by a hand-off.
    alice.cmd("release", lease)
    assert patient.wait(10) == 0, patient.err
    assert refusal(lambda: alice.acquire("db/x"))[0] == EPERM
    # Groups that the rules name only now count for who is attached since before.
    member = holder_of(run, EVE, extra_groups=[*range(70000, 70100), DBA])
    assert refusal(lambda: member.acquire("db/mine"))[0] == EPERM
    reload(run, f"db/* group:{DBA}")
    member.acquire("db/mine")
    reload(run)
    alice.acquire("db/x")
    # What is wrong changes nothing.
    write(run, "db/* user:no-such-user")
    result = run.holdfast("reload")
    assert result.rc == 78 and "there is no user 'no-such-user' on this host" in result.err, result
    alice.acquire("db/new")


@scenario("an agent that starts with other rules keeps the leases of the one before; who waited and may not any more is told so",
          needs_root=True)
def by_restart(run):
    agent = begin(run)
    alice = holder_of(run, ALICE)
    lease = alice.acquire("db/x")["lease"]
    waiting = as_user(run, EVE, "run", "db/x", "--", "true", start=True)
    waiting.wait_err("waiting")
    agent.kill()
    write(run, f"db/* user:{BOB}")
    run.agents.clear()
    begin_again = run.agent(nodes=[], system=True, fresh=False, options=("--config", run.dir / "agent.conf"))
    assert waiting.wait(20) == 77, waiting.err
    assert alice.held(lease) and run.show("db/x")["state"] == "held", begin_again.err
    time.sleep(3)
    assert alice.held(lease)
    assert refusal(lambda: alice.acquire("db/y"))[0] == EPERM
    alice.cmd("release", lease)
    run.keys_gone("db/x")
    assert refusal(lambda: alice.acquire("db/x"))[0] == EPERM


# --- force ----------------------------------------------------------------------------------------------


@scenario("whom a rule lets force a name may ask its holder to stop, and end the hold by force; nobody else of another user may",
          needs_root=True)
def force(run):
    begin(run, f"db/* group:{DBA} force")
    alice = holder_of(run, ALICE)
    alice.acquire("db/x")
    other = alice.acquire("other")["lease"]
    fence = run.show("db/x")["fence"]
    for name, options in (("db/x", {}), ("other", {"groups": [DBA]})):
        for words in (["release", name], ["release", "--force", "--fence", fence, name]):
            result = as_user(run, EVE, *words, **options)
            assert result.rc == 77, result
            assert "force" in result.err, result
    assert "have user 65533 added to the agent's rule" in as_user(run, EVE, "release", "--force", "--fence", fence, "db/x").err
    assert run.show("db/x")["state"] == "held"
    result = as_user(run, EVE, "release", "--force", "--fence", fence, "db/x", groups=[DBA])
    assert result.rc == 0, result
    wait_until(lambda: run.show("db/x") is None, what="it is forced out")
    lease = alice.acquire("db/y")["lease"]
    result = as_user(run, EVE, "release", "db/y", groups=[DBA])
    assert result.rc == 0 or result.rc == 69, result  # the holder does not stop by itself
    assert run.show("db/y")["state"] == "losing"
    alice.cmd("release", lease)
    assert alice.held(other)


# --- see ------------------------------------------------------------------------------------------------


def listed(run, uid, **options):
    result = as_user(run, uid, "list", "--all-hosts", "--json", **options)
    assert result.rc == 0, result
    return {lease["name"] for lease in result.json["leases"]}


@scenario("who may not see a name does not learn from the agent who has it, nor when it is free; listings leave it out", needs_root=True)
def see(run):
    begin(run, f"db/* user:{ALICE} take see", f"db/* group:{DBA} force")
    alice = holder_of(run, ALICE)
    alice.acquire("db/x")
    alice.acquire("open")
    assert listed(run, ALICE) == {"db/x", "open"} == listed(run, EVE, groups=[DBA])
    assert listed(run, EVE) == {"open"}
    for held in ("db/x", "db/free"):
        for words in (["wait", "-w", "0", held], ["wait", held], ["release", held]):
            result = as_user(run, EVE, *words)
            assert result.rc == 77 and "see" in result.err and f"user {ALICE}" not in result.err, result
            assert f"it may not see {held}" in result.err, result
    assert as_user(run, ALICE, "wait", "-w", "0", "db/x").rc == 75
    assert as_user(run, EVE, "wait", "-w", "0", "open").rc == 75
    # One that waits when the rule comes.
    waiting = as_user(run, EVE, "wait", "open", start=True)
    waiting.wait_err("waiting")
    reload(run, "open none see")
    assert waiting.wait(10) == 77, waiting.err
    # What docs/SECURITY.md says of the table: who may attach can read it.
    assert as_user(run, EVE, "list").out.count("db/x") == 1


# --- for operators --------------------------------------------------------------------------------------


def rules_told(result):
    return [finding["text"] for finding in result.json["findings"] if finding["check"] == "agent.rules"]


@scenario("the check finds what is wrong with rules, in their lines; tells who may do what with a name; the settings print and the doctor show them", needs_root=True)
def for_operators(run):
    begin(run)
    told = rules_told(run.holdfast("doctor", "--json"))
    assert len(told) == 1 and "there are no rules" in told[0], told
    reload(run, f"db/* user:{ALICE}", "caf\u00e9 none force")
    told = rules_told(run.holdfast("doctor", "--json"))
    assert told == [f"allow = db/* user:{ALICE}", "allow = caf\u00e9 none force", "2 rules; names that none of them matches are everybody's to take"], told
    reload(run, f"db/* user:{ALICE}", "* none")
    assert "nobody's to take" in rules_told(run.holdfast("doctor", "--json"))[-1]
    assert f"allow = db/* user:{ALICE}" in run.holdfast("doctor").out
    told = rules_told(as_user(run, EVE, "doctor", "--json"))
    assert len(told) == 1 and "only root and the agent's own user may ask it for its rules" in told[0], told
    check = run.dir / "checked.conf"
    check.write_text("node = a=localhost:1\nallow = db/* user:root\nallow = db/x* group:root\nallow = x\nallow = y\\q none\nallow = z user:root root\n")
    result = run.spawn(BUILD / "bin" / "holdfastd", "--check-config", check, "--offline", label="check")
    assert result.wait() == 78
    for line, words in ((3, "'db/x* group:root' never counts, because 'db/* user:root' comes first"), (4, "'x' does not say who may"),
                        (5, "begins none of"), (6, "'root' is none of these")):
        assert f"checked.conf:{line}: allow: " in result.err and words in result.err, (line, result.err)
    check.write_text("node = a=localhost:1\nallow =  db/*   user:root\nallow = x none see\n")
    result = run.spawn(BUILD / "bin" / "holdfastd", "--check-config", check, "--offline", label="check")
    assert result.wait() == 0 and "rules: 2; names that none of them matches are everybody's to take\n" in result.out, result.out
    for name, take, see in (("db/x#3", "allow = db/* user:root", "everybody"), ("x", "everybody", "allow = x none see")):
        result = run.spawn(BUILD / "bin" / "holdfastd", "--check-config", check, "--offline", "--who", name, label="check")
        assert result.wait() == 0, result.err
        for right, who in (("take", take), ("see", see), ("force", "only root and the agent's user")):
            assert f"{name}: {right}: {who}\n" in result.out, result.out
    result = run.spawn(BUILD / "bin" / "holdfastd", "--who", "x", "--config", check, label="check")
    assert result.wait() == 64 and "--who goes with --check-config FILE" in result.err, result.err
    result = run.spawn(BUILD / "bin" / "holdfastd", "--config", check, "--print-config", "--system", label="print")
    assert result.wait() == 0 and "\nallow = db/* user:root\nallow = x none see\n" in result.out, result.out


if __name__ == "__main__":
    main()
