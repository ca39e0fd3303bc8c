#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy over the sources of the product, in a few large units.

  lint.py BUILD CLANG_TIDY [--jobs N] [--only PATH ...] [--share I/N]

BUILD holds a compile_commands.json and the generated protos. With --only, the sources among these paths, and for a header the
source that it belongs to, or the first that includes it. With --share, one of N equal shares of the sources.

clang-tidy parses a unit's headers and runs every check over them: 20 to 30 s of CPU for those of gRPC, however small the source
is. A unit therefore includes as many sources as can stand together. Sources cannot if their unnamed namespaces define one name.
clang's analyzer follows the functions of a source that the unit itself includes, but not those of a source below it.

With --only, each of the chosen sources, up to ALONE_MAX, is also compiled by itself: the builds of a change compile several as
one, so they find no missing include.

Prints the findings. The last line says how many sources were read. Exits 1 if there is a finding. Each version of clang-tidy has
other checks, so with another one than VERSION nothing is read, and the last line says SKIPPED.
"""
from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import tidy

# The rooms that include gRPC. Their units hold nothing else, so that the others are read without its headers.
EDGE = ("server/api/", "server/rpc/", "server/gateway/", "server/daemon/", "client/")
# Some seconds each.
ALONE_MAX = 80
# The version whose findings the sources are free of: Debian 12 has it, Debian 13 does not.
VERSION = 14
# A unit that includes a source is no mistake here.
OPTIONS = ("-quiet", "-checks=-bugprone-suspicious-include")


def names_of(text: str) -> set[str]:
    """The names that a source defines for itself, each with the namespace; functions with their parameters."""
    namespace = re.search(r"^namespace ([\w:]+) \{", text, re.MULTILINE)
    names = {name for _, name in tidy.unnamed_definitions(text)}
    return {f"{namespace[1] if namespace else ''}::{name}" for name in names}


def units_of(sources: dict[str, str]) -> list[list[str]]:
    """Puts each source into the first unit in which its names are free."""
    units: list[tuple[bool, set[str], list[str]]] = []
    for path, text in sorted(sources.items()):
        edge, names = path.startswith(EDGE), names_of(text)
        for unit_edge, taken, paths in units:
            if unit_edge == edge and not names & taken:
                taken |= names
                paths.append(path)
                break
        else:
            units.append((edge, names, [path]))
    return [paths for _, _, paths in units]


def text_of(paths: list[str]) -> str:
    """A unit that includes the sources. Each `main` gets a name of its own, so that two programs can share the unit."""
    text = ""
    for number, path in enumerate(paths):
        include = f'#include "{path}"\n'
        is_main = os.path.basename(path) == "main.cc"
        text += f"#define main main_{number}  // NOLINT\n{include}#undef main\n" if is_main else include
    return text


def flags_of(commands: list[dict[str, str]]) -> list[str]:
    """The flags of all sources, each once."""
    flags: dict[str, None] = {}
    for command in commands:
        words = command["command"].split(" -o ")[0].replace('\\"', '"')
        for flag in re.findall(r"-isystem \S+|-\S+", words):
            flags[flag] = None
    return [word for flag in flags for word in flag.split(" ")]


def chosen(sources: dict[str, str], paths: list[str]) -> set[str]:
    """The sources that read all of the paths that they can."""
    result = set(paths) & sources.keys()
    for header in (path for path in paths if path.endswith(".h")):
        own = header[:-1] + "cc"
        readers = [own] if own in sources else [path for path, text in sorted(sources.items()) if f'#include "{header}"' in text]
        result |= set(readers[:1])
    return result


def compile_alone(command: dict[str, str]) -> str:
    """What the compiler says about a source that does not compile by itself."""
    words = shlex.split(command["command"])
    done = subprocess.run([*words[:words.index("-o")], "-fsyntax-only", command["file"]], cwd=command["directory"], text=True,
                          capture_output=True, check=False)
    return done.stderr if done.returncode else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("clang_tidy")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--share", default="0/1")
    arguments = parser.parse_args()
    build = arguments.build
    index, count = map(int, arguments.share.split("/"))
    version = subprocess.run([arguments.clang_tidy, "--version"], text=True, capture_output=True, check=True).stdout
    found_version = re.search(r"version (\d+)", version)
    if not found_version or int(found_version[1]) != VERSION:
        print(f"SKIPPED: the checks are those of clang-tidy {VERSION}, and {arguments.clang_tidy} is another version")
        return 0
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        commands = [command for command in json.load(file) if not command["file"].endswith(".pb.cc")]
    sources = {}
    for command in commands:
        with open(command["file"], encoding="utf-8") as file:
            sources[os.path.relpath(command["file"], root)] = file.read()

    if arguments.only is not None:
        wanted = chosen(sources, arguments.only)
    else:
        # By folder, because the headers of a folder's sources are mostly the same.
        wanted = set(sorted(sources)[len(sources) * index // count:len(sources) * (index + 1) // count])
    sources = {path: text for path, text in sources.items() if path in wanted}

    def read(unit: tuple[int, list[str]]) -> str:
        number, paths = unit
        path = os.path.join(build, f"lint_{number}.cc")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text_of(paths))
        done = subprocess.run([arguments.clang_tidy, *OPTIONS, path, "--", *flags_of(commands)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False)
        return done.stdout + (done.stderr if done.returncode and not done.stdout else "")

    units = units_of(sources)
    with ThreadPoolExecutor(arguments.jobs) as threads:
        found = "".join(threads.map(read, sorted(enumerate(units), key=lambda unit: -len(unit[1]))))
        if arguments.only is not None:
            chosen_commands = [command for command in commands if os.path.relpath(command["file"], root) in sources]
            found += "".join(threads.map(compile_alone, chosen_commands[:ALONE_MAX]))
    print(found, end="")
    print(f"{len(sources)} sources in {len(units)} units, {'findings' if found else 'no finding'}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
