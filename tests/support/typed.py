"""An interactive shell on a terminal, for what happens when somebody presses TAB.

    shell = Shell(run, "bash")      # or zsh; skips the scenario where it is not installed
    shell.all("holdfast show d")    # the words of the line once every candidate is inserted
"""
import os
import pathlib
import pty
import re
import select
import shutil
import time

from rig import BUILD, ROOT, SLOW, skip

COMPLETION = ROOT / "tools" / "completion"
BASH_COMPLETION = pathlib.Path("/usr/share/bash-completion/bash_completion")
LINE_S = 20
# What inserts all candidates at once: TAB of zsh with _all_matches, ESC * of readline.
SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], b"\x1b*",
             f"PS1=; bind 'set enable-bracketed-paste off' 'set bell-style none'; . {BASH_COMPLETION}; . {COMPLETION}/holdfast.bash"),
    "zsh": (["zsh", "-f", "-i"], b"\t",
            f"PS1=; unsetopt prompt_sp prompt_cr beep; unset zle_bracketed_paste; fpath=({COMPLETION} $fpath); autoload -Uz compinit; "
            "compinit -u -D; zstyle ':completion:*' completer _all_matches _complete; zstyle ':completion:*' old-matches false; "
            "zstyle ':completion:*' insert true; bindkey '^I' complete-word"),
}


class Shell:
    def __init__(self, run, kind):
        argv, self.key, setup = SHELLS[kind]
        if not shutil.which(kind) or kind == "bash" and not BASH_COMPLETION.exists():
            skip(f"no {kind} with completion here")
        env = run.env({"PATH": f"{BUILD}/bin:{os.environ['PATH']}", "TERM": "dumb", "COLUMNS": "2000", "LC_ALL": "C", "HOME": run.dir,
                       "ZDOTDIR": run.dir})
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(run.dir)
            os.execvpe(argv[0], argv, env)
        self.type(f"{setup}; stty columns 2000; echo rea''dy\r".encode(), rb"ready\r?\n")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.fd)  # its terminal hangs up
        os.waitpid(self.pid, 0)

    def type(self, keys, until):
        """Types, and reads up to what matches."""
        os.write(self.fd, keys)
        seen, deadline = b"", time.monotonic() + LINE_S * SLOW
        while not re.search(until, seen):
            if time.monotonic() > deadline:
                raise AssertionError(f"after {keys!r} comes only {seen[-2000:]!r}")
            if select.select([self.fd], [], [], 0.1)[0]:
                seen += os.read(self.fd, 65536)
        return seen

    def all(self, line):
        """The words of the line with all candidates in place of the last word, or itself where there is none."""
        seen = self.type(line.encode() + self.key + b"\x01printf '<%s>' \x05; printf '\\n%s\\n' 'o'ver\r", rb"\nover\r?\n")
        shown = re.findall(rb"\n(<[^\n]*>)\r?\n", seen)
        assert shown, seen
        return shown[-1].decode()[1:-1].split("><")

    def offered(self, line):
        """The candidates for the last word."""
        return self.all(line)[len(line.split(" ")) - 1:]
