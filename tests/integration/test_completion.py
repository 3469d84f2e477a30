#!/usr/bin/env python3
"""TAB in bash and zsh offers what the programs take, and the locks, nodes and agents that are there."""
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from rig import BUILD, main, scenario, wait_until  # noqa: E402
from typed import Shell  # noqa: E402


def help_of(program, *words):
    return subprocess.run([BUILD / "bin" / program, *words, "--help"], capture_output=True, text=True, check=True).stdout


def options_of(text):
    return set(re.findall(r"^ +(?:-., )?(--[a-z-]+)", text, re.M))


def subcommands():
    return re.findall(r"^  ([a-z]+) ", help_of("holdfast"), re.M)


def every_option(run, kind):
    with Shell(run, kind) as shell:
        assert set(shell.offered("holdfast ")) == set(subcommands())
        assert set(shell.offered("holdfast --")) == {"--help", "--version"}
        for name in subcommands():
            if options_of(help_of("holdfast", name)):  # beat has none
                assert set(shell.offered(f"holdfast {name} --")) == options_of(help_of("holdfast", name)), name
        verbs = re.findall(r"(?:fleet|\|) ([a-z-]+)", help_of("holdfast", "fleet", "move").splitlines()[0])
        assert len(verbs) == 7 and set(shell.offered("holdfast fleet ")) == set(verbs)
        assert set(shell.offered("holdfast fleet move --")) == options_of(help_of("holdfast", "fleet", "move"))
        assert set(shell.offered("holdfastd --")) == options_of(help_of("holdfastd"))
        assert "--node" in shell.offered("holdfastd --no") and shell.offered("holdfastd --log-level d") == ["debug"]
        # Nothing comes of what is no subcommand, and no other program is asked.
        assert shell.all("holdfast nosuch --x") == ["holdfast", "nosuch", "--x"]


def what_is_there(run, kind):
    run.redis(3)
    agent = run.agent()
    plain = {"db/migrate", "p:q", "k=v", "two words", "$(touch touched)", ";touch touched"}
    names = [*plain, 'quoted"', "back\\slash"]  # the last two would have to be escaped
    jobs = [run.start_holdfast("run", name, "sleep", "300") for name in names]
    for name in names:
        wait_until(lambda name=name: run.show(name), what=f"{name} is held")
    with Shell(run, kind) as shell:
        assert set(shell.offered("holdfast show ")) == plain
        for line, full in (("show d", "db/migrate"), ("held p:", "p:q"), ("wait k=", "k=v"), ("watch two", "two words"),
                           ("run --also d", "db/migrate"), ("history db/", "db/migrate")):
            assert shell.offered(f"holdfast {line}") == [full], line
        for agent_option in (f"--agent {agent.name}", f"--agent={agent.name}"):
            assert shell.all(f"holdfast show {agent_option} d")[-1] == "db/migrate", agent_option
        assert shell.all("holdfast show --agent nosuch d")[-1] == "d"
        assert shell.offered("holdfast show --agent ") == [agent.name]
        assert shell.offered("holdfast history --node ") == ["n1", "n2", "n3"]
        assert shell.offered("holdfast fleet remove ") == ["n1", "n2", "n3"]
        assert shell.offered("holdfast fleet move ") == ["n1=", "n2=", "n3="]
        assert shell.offered("holdfast run --signal QU") == ["QUIT"]
        assert shell.all("holdfast drain --wait x")[-1] == "x"  # it takes no value there
        # Behind NAME comes a command with its own arguments.
        (run.dir / "a-file").touch()
        for line in ("holdfast run -w 5 one ls a-fi", "holdfast run one -- ls a-fi"):
            assert shell.all(line)[-1] == "a-file", line
        agent.sigstop()
        assert shell.offered("holdfast show d") == ["db/migrate"]
        agent.sigcont()
        assert not (run.dir / "touched").exists(), "a lock's name was run as a command"
    for job in jobs:
        job.signal(15)
        job.wait()


@scenario("bash offers every subcommand and option of --help", sanitizers=False)
def bash_options(run):
    every_option(run, "bash")


@scenario("zsh offers every subcommand and option of --help", sanitizers=False)
def zsh_options(run):
    every_option(run, "zsh")


@scenario("bash offers locks, nodes and agents, also of an agent that hangs", sanitizers=False)
def bash_things(run):
    what_is_there(run, "bash")


@scenario("zsh offers locks, nodes and agents, also of an agent that hangs", sanitizers=False)
def zsh_things(run):
    what_is_there(run, "zsh")


if __name__ == "__main__":
    main()
