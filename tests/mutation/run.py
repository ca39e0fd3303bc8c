#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants faults in the core, one at a time, and shows that its tests catch each of them.

  tests/mutation/run.py [--table NAME] [--only TEXT] [--jobs N] [--scratch DIR]
  tests/mutation/run.py --check      only looks whether the text of every fault is in the source, and its tests exist

Each table (a Python file beside this one) lists faults as tuples:

  (what is wrong, file or folder, the text, its replacement, the tests that must catch the fault)

The text must occur exactly once in the file, or in the sources of the folder. White space does not count, so a fault
survives a reformat, and with a folder it survives a move within the room.

Each job has a scratch copy of the tree with its own debug build. A fault is planted there, its
tests are built and run one after the other until one fails, and the file is restored. The random tests run with a fixed
seed. Exits with 1 if a test catches nothing, a fault does not compile, or its text is missing.
"""

import argparse
import importlib
import os
import pathlib
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ENVIRONMENT = {"DUETIME_SEED": "7", "DUETIME_TEST_SCALE": "0.5", "DUETIME_SIM_SEEDS": "40", "CCACHE_NOHASHDIR": "1"}
# The simulation's own planted faults say nothing about the code.
FILTERS = {"simulation_test": "*CallsTest*"}
# A test that takes longer hangs, which counts as a failure.
TEST_SECONDS = 900
CONFIGURE = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O0 -g0", "-DDUETIME_CLIENT=OFF",
             "-DDUETIME_BENCH=OFF"]


def tables() -> dict[str, list]:
    sys.path.insert(0, str(HERE))
    names = sorted(path.stem for path in HERE.glob("*.py") if path.stem != "run")
    return {name: importlib.import_module(name).FAULTS for name in names}


def sources(root: pathlib.Path, where: str) -> list[pathlib.Path]:
    if (root / where).is_file():
        return [root / where]
    return sorted(path for path in (root / where).rglob("*") if path.suffix in (".h", ".cc"))


def pattern(text: str) -> re.Pattern:
    """The text with any white space between its words."""
    return re.compile(r"\s+".join(re.escape(word) for word in text.split()))


def find(root: pathlib.Path, where: str, text: str) -> tuple[pathlib.Path, re.Match] | None:
    """The file and the place of the text; None unless it occurs exactly once."""
    found = [(path, match) for path in sources(root, where) for match in pattern(text).finditer(path.read_text())]
    return found[0] if len(found) == 1 else None


class Scratch:
    """A copy of the tree with a build folder."""

    def __init__(self, folder: pathlib.Path, ninja_jobs: int):
        self.tree = folder / "tree"
        self.build = folder / "build"
        self.ninja_jobs = ninja_jobs
        self.environment = os.environ | ENVIRONMENT | {"CCACHE_BASEDIR": str(folder)}
        self.tree.mkdir(parents=True, exist_ok=True)
        for path in ROOT.iterdir():
            if path.name not in ("build", ".git"):
                self.copy(path, self.tree / path.name)
        self.run(["cmake", "-S", self.tree, "-B", self.build] + CONFIGURE, check=True)

    def copy(self, source: pathlib.Path, target: pathlib.Path) -> None:
        """A file that is the same already keeps its time, so that ninja sees what a restored file has to rebuild."""
        if source.is_dir():
            target.mkdir(exist_ok=True)
            for gone in {path.name for path in target.iterdir()} - {path.name for path in source.iterdir()}:
                path = target / gone
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            for path in source.iterdir():
                self.copy(path, target / path.name)
        elif not target.exists() or source.read_bytes() != target.read_bytes():
            shutil.copyfile(source, target)
            shutil.copymode(source, target)

    def run(self, command: list, check: bool = False, timeout: float | None = None) -> bool:
        done = subprocess.run([str(word) for word in command], cwd=self.tree, env=self.environment, timeout=timeout,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=check)
        return done.returncode == 0

    def make(self, test: str) -> bool:
        return self.run(["ninja", "-C", self.build, f"-j{self.ninja_jobs}", test])

    def passes(self, test: str) -> bool:
        program = next(path for path in (self.build / "tests").rglob(test) if path.is_file())
        try:
            return self.run([program, f"--gtest_filter={FILTERS.get(test, '*')}"], timeout=TEST_SECONDS)
        except subprocess.TimeoutExpired:
            return False

    def first_to_fail(self, tests: list[str]) -> str | None:
        """The first of the tests that fails, "the compiler" if it does not build, None if all pass."""
        for test in tests:
            if not self.make(test):
                return "the compiler"
            if not self.passes(test):
                return test
        return None

    def plant(self, where: str, text: str, replacement: str, tests: list[str]) -> str | None:
        place = find(self.tree, where, text)
        if place is None:
            return "the text is missing"
        path, match = place
        before = path.read_text()
        path.write_text(before[:match.start()] + replacement + before[match.end():])
        try:
            return self.first_to_fail(tests)
        finally:
            path.write_text(before)


def check(faults: list) -> int:
    missing = [fault for fault in faults if find(ROOT, fault[1], fault[2]) is None]
    for what, where, text, _, _ in missing:
        print(f"{where}: not there exactly once, for the fault '{what}': {text}")
    print(f"{len(faults) - len(missing)} of {len(faults)} faults have their text")
    listed = "".join(path.read_text() for path in (ROOT / "tests").rglob("CMakeLists.txt"))
    programs = set(re.findall(r"(?:duetime_test|add_executable)\((\w+)", listed))
    unknown = {test for fault in faults for test in fault[4].split()} - programs
    for test in sorted(unknown):
        print(f"{test}: no such test program")
    return 1 if missing or unknown else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--table", default="", help="only the faults of this table")
    parser.add_argument("--only", default="", help="only the faults whose description contains this text")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) // 2))
    parser.add_argument("--scratch", type=pathlib.Path, help="keep the scratch copies here, so that the next run starts warm")
    arguments = parser.parse_args()
    faults = [fault for name, table in tables().items() if arguments.table in ("", name) for fault in table]
    if arguments.check:
        return check(faults)

    waiting: queue.Queue = queue.Queue()
    tests = sorted({test for fault in faults for test in fault[4].split()})
    faults = [fault for fault in faults if arguments.only in fault[0]]
    for fault in faults:
        waiting.put(fault)
    survived = []

    def work(folder: pathlib.Path) -> None:
        scratch = Scratch(folder, max(1, (os.cpu_count() or 1) // arguments.jobs))
        while True:
            try:
                what, where, text, replacement, names = waiting.get_nowait()
            except queue.Empty:
                return
            seen = scratch.plant(where, text, replacement, names.split())
            caught = seen in names.split()
            if not caught:
                survived.append(what)
            print(f"{'caught' if caught else 'SURVIVED':9}{what}: {seen or 'every test passes'}", flush=True)

    with tempfile.TemporaryDirectory() as temporary:
        home = arguments.scratch or pathlib.Path(temporary)
        home.mkdir(parents=True, exist_ok=True)
        failing = Scratch(home / "0", os.cpu_count() or 1).first_to_fail(tests)
        if failing is not None:
            print(f"{failing} fails without any fault")
            return 1
        workers = [threading.Thread(target=work, args=(home / str(job),)) for job in range(arguments.jobs)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    print(f"{len(faults) - len(survived)} of {len(faults)} faults caught")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
