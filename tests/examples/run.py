#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the programs of client/examples and client/migrate, and the first ones of the libraries, against a real daemon.

  run.py                                  everything, with the newest programs below build/
  run.py --duetimed PATH --duetime PATH   with this daemon and this command line tool
  run.py --case 'outbox*'                 some cases; --list prints the names

First builds the examples as their READMEs say, which needs the network for what their lock files name. The last line is
"N passed, N failed". Exits 0 only if nothing failed.
"""

import argparse
import fnmatch
import glob
import os
import subprocess
import sys
import tempfile
import time
import traceback

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CLIENT = os.path.join(ROOT, "client")
BUILD = os.path.join(ROOT, "build", "examples")
PYTHON = os.path.join(BUILD, "venv", "bin", "python")


def requirements() -> list[str]:
    return sorted(glob.glob(os.path.join(CLIENT, "examples", "*", "requirements.txt")) +
                  glob.glob(os.path.join(CLIENT, "migrate", "requirements.txt")))


# The commands that make an example ready to run, by the language that its cases need.
BUILDS = {
    "go": [["go", "build", "-o", os.path.join(BUILD, name), "."] for name in ("marketing-push", "retry-queue")],
    "java": [["mvn", "-q", "-B", "-f", os.path.join(CLIENT, "java"), "install", "-DskipTests"],
             ["mvn", "-q", "-B", "compile"]],
    "node": [["npm", "ci", "--prefix", os.path.join(CLIENT, "node")],
             ["npm", "run", "build", "--prefix", os.path.join(CLIENT, "node")],
             ["npm", "ci"]],
}
FOLDERS = {"java": "order-timeout", "node": "auto-review"}


def command(words: list[str], folder: str = ROOT) -> None:
    """Runs a command, and once more if it fails, because a registry may fail once."""
    for last in (False, True):
        result = subprocess.run(words, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if result.returncode == 0:
            return
        if last:
            raise RuntimeError(f"{' '.join(words)} ended with {result.returncode}:\n{result.stdout[-3000:]}")


def enter_virtual_environment() -> None:
    """Goes on with a Python that has the library and what the examples in Python need."""
    if os.path.abspath(sys.executable) == PYTHON:
        return
    start = time.monotonic()
    command([sys.executable, "-m", "venv", "--clear", os.path.join(BUILD, "venv")])
    locks = [word for path in requirements() for word in ("-r", path)]
    command([PYTHON, "-m", "pip", "install", "--quiet", *locks, os.path.join(CLIENT, "python")])
    print(f"built   python ({time.monotonic() - start:.1f} s)", flush=True)
    # Without it, gRPC reports each process that the cases start.
    os.execve(PYTHON, [PYTHON, "-B", *sys.argv], dict(os.environ, GRPC_ENABLE_FORK_SUPPORT="0"))


def build(language: str) -> None:
    start = time.monotonic()
    for words in BUILDS.get(language, []):
        folder = FOLDERS.get(language) or os.path.basename(words[3])
        command(words, os.path.join(CLIENT, "examples", folder))
    print(f"built   {language} ({time.monotonic() - start:.1f} s)", flush=True)


def newest(program: str) -> str | None:
    return max(glob.glob(os.path.join(ROOT, "build", "*", program)), key=os.path.getmtime, default=None)


def run(cases, duetimed: str, duetime: str) -> tuple[int, int]:
    sys.path.insert(1, os.path.join(ROOT, "tests", "conformance"))
    from server import Daemon
    from support import World

    problems: dict[str, str] = {}
    for language in sorted({case.language for case in cases} - {"python"}):
        try:
            build(language)
        except RuntimeError as error:
            problems[language] = str(error)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="duetime-examples-") as folder:
        daemon = Daemon(duetimed, folder)
        try:
            for case in cases:
                start = time.monotonic()
                problem = problems.get(case.language)
                if problem is None:
                    try:
                        with World(daemon.address, duetime, BUILD, folder) as world:
                            case.run(world)
                    except Exception:  # pylint: disable=broad-except
                        problem = traceback.format_exc()
                failed += problem is not None
                print(f"{'failed' if problem else 'passed':8}{case.name} ({time.monotonic() - start:.1f} s)"
                      + (f": {problem}" if problem else ""), flush=True)
        finally:
            daemon.kill()
    return len(cases) - failed, failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--duetimed", default=newest("server/duetimed"), help="the daemon; default: the newest below build/")
    parser.add_argument("--duetime", default=newest("client/cli/duetime"), help="the command line tool; default: likewise")
    parser.add_argument("--case", action="append", help="only cases whose names match this pattern; may be repeated")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    options = parser.parse_args()

    enter_virtual_environment()
    import cases_examples
    import cases_migrate
    import cases_quickstarts

    cases = [case for case in cases_examples.CASES + cases_migrate.CASES + cases_quickstarts.CASES
             if any(fnmatch.fnmatch(case.name, pattern) for pattern in options.case or ["*"])]
    if options.list:
        print("\n".join(case.name for case in cases))
        return 0
    if not cases or not options.duetimed or not options.duetime:
        print("no case has such a name" if not cases else "build duetimed and duetime first", file=sys.stderr)
        return 2
    passed, failed = run(cases, os.path.abspath(options.duetimed), os.path.abspath(options.duetime))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
