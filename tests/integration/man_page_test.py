#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the man page of duetime with mandoc and man, and compares it with the help of every command.

    tests/integration/man_page_test.py DUETIME"""

import os
import re
import subprocess
import sys
import tempfile

# The page has no date of its own, so that two builds of a version print the same.
ALLOWED = 'missing date, using ""'


def output_of(*argv: str) -> str:
    environment = dict(os.environ, MANWIDTH="200", DUETIME_CONTEXT="none", LC_ALL="C.UTF-8", MANPAGER="cat")
    return subprocess.run(argv, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False).stdout


def commands_of(duetime: str, words: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """Every command that runs, with its help."""
    text = output_of(duetime, *words, "--help")
    # Commands stand in groups before the footer. Their names are in small letters, those of arguments in large ones.
    names = re.findall(r"^  ([a-z][\w-]*) ", text.split("\n\n\n", 1)[0], re.MULTILINE)
    if not names:
        return [(" ".join(words), text)]
    return [command for name in names for command in commands_of(duetime, (*words, name))]


def main() -> int:
    duetime = os.path.abspath(sys.argv[1])
    failures = []
    with tempfile.NamedTemporaryFile("w", suffix=".1", encoding="utf-8") as file:
        file.write(output_of(duetime, "man"))
        file.flush()
        lint = output_of("mandoc", "-T", "lint", "-W", "warning", file.name).splitlines()
        failures += [line for line in lint if ALLOWED not in line]
        # groff's own warnings, and the page as text, without the marks of bold letters.
        text = re.sub(r".\x08", "", output_of("man", "--warnings", "-l", file.name))
        failures += re.findall(r"^.*warning:.*$", text, re.MULTILINE)
    commands = commands_of(duetime)
    if len(commands) < 50:
        failures.append(f"the help has only {len(commands)} commands")
    for words, help_text in commands:
        section = re.search(rf"^   duetime {words}( .*)?$\n((?:.*\n)*?)(?=^   duetime |^[A-Z])", text, re.MULTILINE)
        if section is None:
            failures.append(f"the page has no {words}")
            continue
        # The options of the help, without -h,--help.
        for option in re.findall(r"^  (?:-\w,)?(--[\w-]+)", help_text, re.MULTILINE):
            if option != "--help" and option not in section[2]:
                failures.append(f"the page has no {option} of {words}")
    print("\n".join(failures) or f"{len(commands)} commands are in the page")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
