"""A mutant's programs: what its fault changes is compiled again, with the flags of the build, and linked in place of
what the build has. The build itself is only read, so nothing of a mutant can get into what ships.

MUTANT/src      the changed sources, seen before the repository's
MUTANT/obj      their objects
MUTANT/build    bin/, lib/ and tests/ as in a build: changed programs, the others linked to the build's
"""
import functools
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess

from faults import ROOT, Broken
from places import Sources

TEST_OBJECT = re.compile(r"/unit/test_\w+\.c\.o$")


class Build:
    def __init__(self, path):
        self.path = path
        self.sources = Sources(ROOT)

    def ninja(self, *words):
        done = subprocess.run(["ninja", "-C", self.path, *words], text=True, capture_output=True, check=False)
        if done.returncode:
            raise Broken(f"ninja {' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout

    @functools.cached_property
    def compiles(self):
        """Object to (source, words of its command)."""
        found = {}
        for entry in json.loads((self.path / "compile_commands.json").read_text()):
            words = shlex.split(entry["command"])
            found[words[words.index("-o") + 1]] = entry["file"], words
        return found

    @functools.cached_property
    def needs(self):
        """Object to the files of the repository that it is made of; generated ones relative to the build."""
        found, files = {}, None
        for line in self.ninja("-t", "deps").splitlines():
            if line.endswith("(VALID)"):
                files = found.setdefault(line.split(":")[0], set())
            elif line.startswith("    ") and files is not None:
                file = pathlib.Path(os.path.normpath(self.path / line.strip()))
                if file.is_relative_to(self.path):
                    files.add(str(file.relative_to(self.path)))
                elif file.is_relative_to(ROOT):
                    files.add(str(file.relative_to(ROOT)))
            else:
                files = None
        return found

    @functools.cached_property
    def programs(self):
        """Programs and shared libraries that the build has made, by their paths in it."""
        lines = self.ninja("-t", "targets", "all").splitlines()
        return [name for name, _, rule in (line.partition(": ") for line in lines)
                if ("EXECUTABLE_LINKER" in rule or "SHARED_LIBRARY_LINKER" in rule) and (self.path / name).exists()]

    def real(self, name):
        """The program that this one is a link to, as many unit tests are; else itself."""
        path = self.path / name
        return str(pathlib.Path(name).parent / os.readlink(path)) if path.is_symlink() else name

    def tests(self):
        """Every unit test's program, or its link to the one that it shares."""
        return sorted(f"tests/{path.name}" for path in (self.path / "tests").glob("test_*") if self.real(f"tests/{path.name}") in self.programs)

    @functools.lru_cache(maxsize=None)
    def link(self, name):
        """The words that link a program, or put an archive together."""
        command = self.ninja("-t", "commands", "-s", name)
        if name.endswith(".a"):
            command = command.split(" qc ", 1)[1].split("&&")[0]
        return [word.replace("\\$", "$") for word in shlex.split(command.replace(": && ", "").replace(" && :", ""))]

    def belongs(self, object, name):
        """Whether that object has a part in what the program does: those of other unit tests in it have none."""
        return self.real(name) == name or not TEST_OBJECT.search(object) or object.endswith(f"/{pathlib.Path(name).name}.c.o")

    @functools.lru_cache(maxsize=None)
    def objects(self, name):
        """Whatever a program can be linked from: its own objects, and those of its archives."""
        found = []
        for word in self.link(self.real(name)):
            if word.endswith(".o") and self.belongs(word, name):
                found.append(word)
            elif word.endswith(".a") and word != name and not os.path.isabs(word):
                found += self.objects(word)
        return found


class Mutant:
    """What of the build a fault changes, compiled and linked anew."""

    def __init__(self, build, fault, path, flags):
        self.build, self.name, self.path, self.flags = build, fault.path.name, path, flags
        self.source, self.made = path / "src", path / "build"
        shutil.rmtree(path, ignore_errors=True)
        self.source.mkdir(parents=True)
        self.changed = set(fault.apply(build.sources, self.source))
        scripts = [name for name in self.changed if name.endswith(".lua")]
        if scripts:
            self.embed_scripts(pathlib.Path(scripts[0]).parent)
        self.compiled = {}
        self.affected = {name for name, needs in build.needs.items()
                         if name in build.compiles and needs & self.changed}

    def embed_scripts(self, folder):
        scripts = self.source / folder
        for script in (ROOT / folder).glob("*.lua"):
            if not (scripts / script.name).exists():
                shutil.copyfile(script, scripts / script.name)
        out = self.source / "generated" / "agent" / "scripts.h"
        out.parent.mkdir(parents=True)
        subprocess.run(["cmake", f"-DOUT={out}", f"-DDIR={scripts}", "-P", ROOT / "cmake" / "EmbedScripts.cmake"],
                       check=True, stdout=subprocess.DEVNULL)
        self.changed.add("generated/agent/scripts.h")

    def object(self, name):
        """The path of the object to link for the build's `name`."""
        if name not in self.affected:
            return name
        if name not in self.compiled:
            source, words = self.build.compiles[name]
            out = self.path / "obj" / name.replace("/", "_")
            out.parent.mkdir(parents=True, exist_ok=True)
            changed = self.source / pathlib.Path(source).relative_to(ROOT)
            words = [str(changed if changed.exists() and word == source else word) for word in words]
            words[words.index("-o") + 1] = str(out)
            include = next(i for i, word in enumerate(words) if word.startswith("-I"))
            words[include:include] = [f"-I{self.source}", f"-I{self.source}/generated"]
            self.run([*words, "-w", *self.flags])
            self.compiled[name] = str(out)
        return self.compiled[name]

    def run(self, words):
        done = subprocess.run(words, cwd=self.build.path, text=True, capture_output=True, check=False)
        if done.returncode:
            raise Broken(f"{self.name} cannot be built\n{done.stdout}{done.stderr}")

    def is_affected(self, program):
        return not self.affected.isdisjoint(self.build.objects(program))

    def archive(self, name):
        """The path of the archive to link for the build's `name`."""
        if os.path.isabs(name) or self.affected.isdisjoint(self.build.objects(name)):
            return name
        out = self.path / "obj" / name.replace("/", "_")
        if not out.exists():
            out.parent.mkdir(parents=True, exist_ok=True)
            self.run(["ar", "qcs", str(out), *map(self.object, self.build.objects(name))])
        return str(out)

    def relink(self, program):
        words = [self.object(word) if word.endswith(".o") and self.build.belongs(word, program) else
                 self.archive(word) if word.endswith(".a") else word for word in self.build.link(self.build.real(program))]
        out = self.made / program
        out.parent.mkdir(parents=True, exist_ok=True)
        out.unlink(missing_ok=True)
        words[words.index("-o") + 1] = str(out)
        self.run(words)

    def take(self, program):
        """The program as the mutant has it."""
        out = self.made / program
        if not out.exists():
            if self.is_affected(program):
                self.relink(program)
            else:
                out.parent.mkdir(parents=True, exist_ok=True)
                os.link(self.build.path / program, out)
        return out

    def take_all(self, of_tests=None):
        """Whatever scenarios run: all programs but the unit tests and the simulator, or of the tests' only these; and
        what is preloaded."""
        for program in self.build.programs:
            folder, _, name = program.rpartition("/")
            if folder != "tests" or (name in of_tests if of_tests else not name.startswith(("test_", "unit_")) and name != "sim"):
                self.take(program)
        for link in (self.build.path / "lib").glob("*.so*"):
            if link.is_symlink():
                (self.made / "lib" / link.name).unlink(missing_ok=True)
                (self.made / "lib" / link.name).symlink_to(os.readlink(link))
        self.take_preloads()

    def take_preloads(self):
        (self.made / "tests").mkdir(parents=True, exist_ok=True)
        for library in (self.build.path / "tests").glob("*.so"):
            out = self.made / "tests" / library.name
            if not out.exists():
                os.link(library, out)


class Control(Mutant):
    """No mutant: linked anew in the same way, from the build's own objects. A catcher that fails on it notices
    something else than mutants."""

    def __init__(self, build, path):
        self.build, self.path, self.made = build, path, path / "build"
        shutil.rmtree(path, ignore_errors=True)
        product = ("agent/", "libclient/", "shm/", "tools/")
        self.affected = {name for name in build.compiles if name.startswith(product)}

    def object(self, name):
        return name

    def run(self, words):
        done = subprocess.run(words, cwd=self.build.path, text=True, capture_output=True, check=False)
        if done.returncode:
            raise Broken(f"the control cannot be linked\n{done.stdout}{done.stderr}")
