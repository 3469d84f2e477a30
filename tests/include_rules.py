#!/usr/bin/env python3
"""Who may include whom, and what the pure core may call. Prints one line per violation. Who calls whom is in
tests/rooms.

    tests/include_rules.py [BUILD_DIR]

With a build directory the core's archive is looked at too: an undefined symbol that is not on the list
below (a clock, a socket, a thread, an allocation) is a violation. So is what a unit test defines for others in a program that it
shares: it would take the place of the product's function in all of them.
"""
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')

# Headers of other projects, and the only files that see them.
LIBRARIES = {
    "hiredis": r"agent/redis/|tools/bench/|tests/",
    "urcu": r"agent/(?!core/)|tools/bench/|tests/",
    "openssl": r"agent/base/tls_keys\.c|agent/redis/tls\.c|tests/",
    "ini.h": r"agent/config/|tests/",
    "jansson.h": r"tools/(output|show|top|control|doctor)/|tests/",
    "cmocka.h": r"tests/",
    "pthread.h": r"agent/(?!core/)|libclient/|tests/|tools/bench/|docs/",
}

# Files that match the first pattern may include, of this repository, only what matches the second.
RULES = [
    (r"shm/", r"shm/"),
    (r"agent/core/", r"agent/core/|shm/(status|layout|nstime|compiler|counters|text|assert)\b"),
    (r"agent/base/", r"agent/(base|core)/|shm/"),
    (r"agent/config/", r"agent/(config|base|core)/|shm/"),
    (r"agent/state/", r"agent/(state|config|base|core|agent\.h)|shm/"),
    (r"agent/redis/", r"agent/(redis|state|config|base|core|agent\.h|scripts\.h)|shm/"),
    (r"agent/renewal/", r"agent/(renewal|redis|state|config|base|core|agent\.h|scripts\.h)|shm/"),
    (r"agent/broker/", r"agent/(?!(process|check|dev)/)|shm/"),
    (r"agent/process/", r"agent/(?!(check|dev)/)|shm/"),
    # The check looks at everything, and has one door, for main.c, too.
    (r"agent/check/", r"agent/(?!dev/)|shm/"),
    # The wrapper of --dev looks into no agent: it has one door, for main.c.
    (r"agent/dev/", r"agent/(dev|config|base)/|agent/process/notify\.h|shm/"),
    (r"agent/", r"agent/(?!(check|dev)/)|agent/(check/check|dev/dev)\.h|shm/"),
    (r"libclient/holdfast(?:_\w+)?\.h", r"libclient/holdfast\.h"),
    (r"libclient/cxx/", r"libclient/(cxx/)?holdfast\w*\.h(pp)?"),
    (r"libclient/", r"libclient/(?!cxx/)|shm/"),
    # tools/ from the ground up: common; reader and output; the rooms of subcommands, none of which sees another; main.
    # Their one door is tools/commands.h. `run` is an ordinary user of the library: it sees no table.
    (r"tools/common/", r"tools/common/|libclient/holdfast\.h|shm/(nstime|text)\.h"),
    (r"tools/reader/", r"tools/(reader|common)/|libclient/table_descriptor\.h|shm/"),
    (r"tools/output/", r"tools/(output|common)/|shm/"),
    (r"tools/run/", r"tools/(run|common)/|tools/commands\.h|libclient/holdfast(_run|_sets)?\.h|shm/text\.h"),
    (r"tools/(show|top|control|doctor)/", r"tools/(\1|output|reader|common)/|tools/commands\.h|libclient/holdfast(_admin)?\.h|shm/"),
    (r"tools/bench/load\.c", r"tools/bench/|shm/|agent/core/"),
    (r"tools/bench/", r"tools/bench/|libclient/holdfast(_admin|_sets)?\.h|shm/|agent/scripts\.h"),
    (r"tools/main\.c", r"tools/commands\.h|tools/common/|libclient/holdfast\.h|shm/(process|text|version)\.h"),
    (r"tools/commands\.h", r"$^"),
    (r"docs/", r"libclient/(cxx/)?holdfast(_\w+)?\.h(pp)?"),
    (r"tests/", r""),
]

# The core's own system headers: no clock, no socket, no thread, no allocation.
CORE_HEADERS = {"assert.h", "errno.h", "inttypes.h", "limits.h", "stdarg.h", "stdbool.h", "stddef.h",
                "stdint.h", "stdio.h", "string.h", "sys/queue.h"}
CORE_CALLS = {"memcpy", "memmove", "memset", "memcmp", "memchr", "strlen", "strcmp", "strncmp", "strstr", "snprintf",
              "vsnprintf", "stpncpy", "abort", "qsort"}
CORE_CALL_EXTRAS = re.compile(r"^(__\w+_chk|__stack_chk_fail|__assert_fail|_GLOBAL_OFFSET_TABLE_|"
                              r"__popcountdi2|__(asan|ubsan|tsan)_\w+|hf_\w+)$")


SHARED_TEST = re.compile(r"tests/CMakeFiles/unit_\w+\.dir/unit/test_\w+\.c\.o$")


def source_files():
    for folder in ("shm", "agent", "libclient", "tools", "docs", "tests"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".c", ".h", ".cpp", ".hpp", ".def"):
                yield path


def resolve(path, target):
    """The included file relative to the root, or None if it is not of this repository."""
    for base in (ROOT, path.parent):
        if (base / target).is_file():
            return str((base / target).resolve().relative_to(ROOT))
    if target == "agent/scripts.h":  # made by the build
        return target
    return None


def check_file(path):
    name = str(path.relative_to(ROOT))
    found, allowed = next((match, rule) for pattern, rule in RULES if (match := re.match(pattern, name)))
    if found.groups():  # a rule for several folders, each of which sees itself
        allowed = allowed.replace(r"\1", found.group(1))
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        kind, target = match.groups()
        own = resolve(path, target) if kind == '"' else None
        if own:
            if not re.match(allowed, own):
                yield f"{name}:{number}: may not include {own}"
            continue
        for library, who in LIBRARIES.items():
            if target.startswith(library) and not re.match(who, name):
                yield f"{name}:{number}: may not include <{target}>"
        if name.startswith("agent/core/") and target not in CORE_HEADERS:
            yield f"{name}:{number}: the core may not include <{target}>"


def check_core_calls(build):
    archive = pathlib.Path(build) / "lib" / "libhf_core.a"
    if not archive.exists():
        yield f"{archive}: not built"
        return
    symbols = subprocess.run(["nm", str(archive)], capture_output=True, text=True, check=True).stdout
    defined, undefined = set(), set()
    for line in symbols.splitlines():
        fields = line.split()
        if len(fields) == 2 and fields[0] == "U":
            undefined.add(fields[1])
        elif len(fields) == 3:
            defined.add(fields[2])
    for symbol in sorted(undefined - defined - CORE_CALLS):
        if not CORE_CALL_EXTRAS.match(symbol):
            yield f"agent/core: calls {symbol}()"


def check_shared_programs(build):
    commands = json.loads((pathlib.Path(build) / "compile_commands.json").read_text())
    objects = sorted({word for entry in commands for word in entry["command"].split() if SHARED_TEST.match(word)})
    if not objects:
        yield f"{build}/tests: no unit test shares a program"
        return
    symbols = subprocess.run(["nm", "-A", "-g", "--defined-only", "--", *objects], cwd=build, capture_output=True, text=True, check=True).stdout
    for line in symbols.splitlines():
        path, _, rest = line.partition(":")
        name, symbol = pathlib.Path(path).name.partition(".")[0], rest.split()[-1]
        if symbol != f"main_of_{name}":
            yield f"tests/unit/{name}: defines {symbol} in a program that it shares: name it in unit_alone of tests/CMakeLists.txt"


STATIC = re.compile(r"^static (?:inline )?(?:_Noreturn )?(?:const |struct |enum |unsigned |signed |long |volatile )*[a-z_]\w*(?: \*+| )\*?([a-z_]\w*)\(", re.M)
EXPORTED = re.compile(r"^(?!static|typedef|return|else|case|if|while|for|switch)(?:_Noreturn )?(?:HF_\w+ )?(?:const |struct |enum |unsigned |signed |long )*"
                      r"[a-z_]\w*(?: \*+| )\*?([a-z_]\w*)\(", re.M)


SECTION = re.compile(r"^/\* --- (.*?) -+ \*/$", re.M)


def prefixes_of(path, text):
    """Those of which a static function's name has one: words of the file's name in their order, the word that an exported
    function of the file begins with, behind hf_ where it has that, or a word of the title of one of its sections."""
    words = path.stem.split("_")
    titles = {word for title in SECTION.findall(text) for word in re.findall(r"[a-z]{3,}", title.lower())}
    found = {"_".join(words[i:j]) for i in range(len(words)) for j in range(i + 1, len(words) + 1)}
    found |= titles
    found |= {word[:-1] for word in found if word.endswith("s")}
    return found | {re.sub(r"^hfc?_", "", name).split("_")[0] for name in EXPORTED.findall(text)} | {"hf"}


def check_prefixes():
    """So that a breakpoint, a profile and a log name one function."""
    for path in source_files():
        if path.suffix != ".c" or path.relative_to(ROOT).parts[0] not in ("agent", "libclient", "shm", "tools"):
            continue
        text = path.read_text()
        prefixes = tuple(f"{word}_" for word in prefixes_of(path, text))
        for name in dict.fromkeys(STATIC.findall(text)):
            if not name.startswith(prefixes):
                yield f"{path.relative_to(ROOT)}: {name}() has no prefix of its file, such as {path.stem}_"


def main():
    violations = list(check_prefixes())
    violations += [text for path in source_files() for text in check_file(path)]
    if len(sys.argv) > 1:
        violations += [*check_core_calls(sys.argv[1]), *check_shared_programs(sys.argv[1])]
    for text in violations:
        print(text)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
