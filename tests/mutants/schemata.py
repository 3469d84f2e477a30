"""Many mutants in one build: a function that faults change gets one more for each of them, and calls it where HF_MUTANT has its
number. So each source is compiled once and each program linked once, whatever the number of mutants.

What changes no body of a function of C, or one with `...`, goes the long way (rebuild.py), and so does what does not compile.
"""
import concurrent.futures
import re
import shutil

from faults import Broken
from places import function, places_of_c
from rebuild import Mutant

PRELUDE = """#ifndef HF_MUTANT_PRELUDE
#define HF_MUTANT_PRELUDE
#ifdef __cplusplus
enum { hf_mutant };
#else
static int hf_mutant;
__attribute__((constructor)) static void hf_mutant_begin(void)
{
    extern char *getenv(const char *);
    extern int atoi(const char *);
    const char *number = getenv("HF_MUTANT");

    hf_mutant = number ? atoi(number) : 0;
}
#endif
#endif
"""
STORAGE = re.compile(r"\b(static|inline|extern|HF_EXPORT)\b")


class Function:
    """The definition of a function in a file's lines `first` to `last`, its body from `opens` on."""

    def __init__(self, lines, first, last):
        self.first, self.last = first, last
        self.opens = next((at for at in range(first, last) if lines[at] == "{"), None)
        head = " ".join(line.strip() for line in lines[first:self.opens])
        self.name = function(head) if self.opens else None
        if not self.name:
            raise Broken("no function")
        begins = re.search(rf"\b{self.name}\(", head)
        ends = closing(head, begins.end())
        self.returns = " ".join(STORAGE.sub("", head[:begins.start()]).split())
        self.parameters, self.behind = head[begins.end():ends], head[ends + 1:]
        self.arguments = ", ".join(argument(text) for text in split(self.parameters) if text.strip() != "void")

    def prototype(self, number):
        return f"static {self.returns} {self.name}__{number}({self.parameters}){self.behind}"

    def dispatch(self, number):
        call = f"{self.name}__{number}({self.arguments})"
        leave = f"{call}; return;" if self.returns == "void" else f"return {call};"
        return f"    if (__builtin_expect(hf_mutant == {int(number)}, 0)) {{ {leave} }}"


def closing(text, at):
    """Where the parenthesis ends that was opened before `at`."""
    depth = 1
    while depth:
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return at - 1


def split(parameters):
    depth, found = 0, [""]
    for char in parameters:
        depth += {"(": 1, ")": -1}.get(char, 0)
        if char == "," and depth == 0:
            found.append("")
        else:
            found[-1] += char
    return found


def argument(parameter):
    """The name of a parameter."""
    if parameter.strip() == "...":
        raise Broken("a function with ... cannot pass its arguments on")
    pointer = re.search(r"\(\s*\*\s*(\w+)\s*(\[[^]]*\])?\)", parameter)
    return pointer.group(1) if pointer else re.search(r"(\w+)\s*(\[[^]]*\]\s*)*$", parameter).group(1)


def bodies(fault, sources):
    """(file, function) to the lines of its body as the fault has them."""
    found = {}
    for change in fault.changes:
        file, first, last = change.find(sources)
        lines = sources.lines[file]
        around = places_of_c(lines) if file.endswith((".c", ".h")) else ()
        place = next((Function(lines, begins, ends) for _, begins, ends in around if begins <= first and last <= ends), None)
        if not place or first <= place.opens or last >= place.last:
            raise Broken("it changes more than a body")
        found.setdefault((file, place.first), (place, []))[1].append((first, last, change))
    return found


def mutated(place, spots, lines):
    """The function's lines from its body on, with these changes."""
    new = list(lines[:place.last + 1])
    for first, last, change in sorted(spots, key=lambda spot: spot[0], reverse=True):
        new[first:last + 1] = change.new_lines(new[first:last + 1])
    return new[place.opens:]


class Schemata(Mutant):
    """All of these faults that it `carries`, in one build. The programs of their quick catchers are made by make()."""

    def __init__(self, build, faults, path, flags):
        self.build, self.name, self.path, self.flags = build, "the mutants in one build", path, flags
        self.source, self.made = path / "src", path / "build"
        shutil.rmtree(path, ignore_errors=True)
        self.carries = {}
        for fault in faults:
            try:
                self.carries[fault.number] = bodies(fault, build.sources)
            except Broken:
                continue  # the long way

    def write(self):
        """The sources, and what is to be compiled of them."""
        by_file = {}
        for number, found in self.carries.items():
            for (file, first), (place, spots) in found.items():
                by_file.setdefault(file, {}).setdefault(first, (place, []))[1].append((number, spots))
        shutil.rmtree(self.source, ignore_errors=True)
        for file, functions in by_file.items():
            lines = self.build.sources.lines[file]
            out, at = [PRELUDE], 0
            for first, (place, changes) in sorted(functions.items()):
                out += lines[at:first] + [place.prototype(number) + ";" for number, _ in changes]
                out += lines[first:place.opens + 1] + [place.dispatch(number) for number, _ in changes]
                out += lines[place.opens + 1:place.last + 1]
                for number, spots in changes:
                    out += [place.prototype(number)] + mutated(place, spots, lines)
                at = place.last + 1
            (self.source / file).parent.mkdir(parents=True, exist_ok=True)
            (self.source / file).write_text("\n".join(out + lines[at:]) + "\n")
        self.changed, self.compiled = set(by_file), {}
        self.affected = {name for name, needs in self.build.needs.items()
                         if name in self.build.compiles and needs & self.changed}

    def make(self, programs, jobs):
        """Compiles until everything compiles: the faults of a source that does not go the long way."""
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            while True:
                self.write()
                wanted = sorted({name for program in programs for name in self.build.objects(program)} & self.affected)
                bad = [name for name in pool.map(self.fails, wanted) if name]
                if not bad:
                    break
                files = {file for name in bad for file in self.build.needs[name] & self.changed}
                self.carries = {number: found for number, found in self.carries.items() if not {file for file, _ in found} & files}
            for program in programs:
                for word in self.build.link(program):
                    if word.endswith(".a"):
                        self.archive(word)
            list(pool.map(self.take, programs))

    def point_to(self, name):
        """A unit test by its name, in the program that it shares."""
        real = self.build.real(name)
        if real != name and not (self.made / name).is_symlink():
            (self.made / name).symlink_to((self.made / real).name)

    def fails(self, name):
        try:
            self.object(name)
        except Broken:
            return name
        return None
