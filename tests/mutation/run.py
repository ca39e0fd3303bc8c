#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants faults in the core, one at a time, and shows that its tests catch each of them.

  tests/mutation/run.py [--table NAME] [--only TEXT] [--sample N] [--jobs N] [--scratch DIR]
  tests/mutation/run.py --table layers [--only TEXT] [--jobs N] [--scratch DIR] [--results FILE]
  tests/mutation/run.py --check      only looks whether the text of every fault is in the source, and its tests exist

Each table (a Python file beside this one) lists faults as tuples:

  (what is wrong, file or folder, the text, its replacement, the tests that must catch the fault)

The table `layers` runs only when it is named, because it also builds the daemon. Each of its faults names one layer, a
promise and a time limit (see layers.py). run.py builds what that layer needs, runs the layer once without a fault and once
with it, and prints a table at the end. FILE keeps the results: a run that was cut short goes on where it stopped. Delete
FILE after a change of the code.

The text must occur exactly once in the file, or in the sources of the folder. White space does not count, so a fault
survives a reformat, and with a folder it survives a move within the room.

Each job has a scratch copy of the tree with its own debug build. A fault is planted there, its
tests are built and run one after the other until one fails, and the file is restored. The random tests run with a fixed
seed. Exits with 1 if a test catches nothing, a fault does not compile, or its text is missing.
"""

import argparse
import importlib
import json
import os
import pathlib
import queue
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ENVIRONMENT = {"DUETIME_SEED": "7", "DUETIME_TEST_SCALE": "0.5", "DUETIME_SIM_SEEDS": "40"}
# The simulation's own planted faults say nothing about the code.
FILTERS = {"simulation_test": "*CallsTest*"}
# A test that takes longer hangs, which counts as a failure.
TEST_SECONDS = 900
CONFIGURE = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O0 -g0", "-DDUETIME_BENCH=OFF"]

LAYERS = "layers"
# As in CI, with fewer seeds: a simulation stops at the first seed that shows the fault.
LAYER_ENVIRONMENT = {"DUETIME_SEED": "7", "DUETIME_SIM_SEEDS": "100"}


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

    def __init__(self, folder: pathlib.Path, ninja_jobs: int, client: bool = False, environment: dict = ENVIRONMENT):
        self.tree = folder / "tree"
        self.build = self.tree / "build"
        self.ninja_jobs = ninja_jobs
        self.environment = os.environ | environment
        self.tree.mkdir(parents=True, exist_ok=True)
        for path in ROOT.iterdir():
            if path.name not in ("build", ".git"):
                self.copy(path, self.tree / path.name)
        options = CONFIGURE + [f"-DDUETIME_CLIENT={'ON' if client else 'OFF'}"]
        self.run(["cmake", "-S", self.tree, "-B", self.build] + options, check=True)

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

    def plant(self, where: str, text: str, replacement: str, judge):
        """What `judge` returns while the fault is in the tree."""
        place = find(self.tree, where, text)
        if place is None:
            return "the text is missing"
        path, match = place
        before = path.read_text()
        path.write_text(before[:match.start()] + replacement + before[match.end():])
        try:
            return judge()
        finally:
            path.write_text(before)

    def command(self, layer: str) -> list[str]:
        """The command of a test of ctest, with the layer's own arguments behind it."""
        name, *arguments = layer.split()
        for path in (self.build / "tests").rglob("CTestTestfile.cmake"):
            found = re.search(rf"^add_test\(\[?=*\[?{name}\]?=*\]? (.*)\)$", path.read_text(), re.MULTILINE)
            if found is not None:
                return shlex.split(found[1]) + arguments
        raise LookupError(f"{layer}: ctest has no such test")

    def try_layer(self, layer: str, seconds: float) -> tuple[str, float]:
        """How the layer ends ("passes", "fails" or "too slow"), and after how many seconds."""
        command = self.command(layer)
        if not self.make(pathlib.Path(command[0]).name):
            return "does not compile", 0
        begun = time.monotonic()
        # A process group of its own, so that nothing of it runs on after the limit.
        layer_run = subprocess.Popen(command, cwd=self.tree, env=self.environment, stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            result = "passes" if layer_run.wait(seconds) == 0 else "fails"
        except subprocess.TimeoutExpired:
            os.killpg(layer_run.pid, signal.SIGKILL)
            layer_run.wait()
            result = "too slow"
        return result, time.monotonic() - begun


class Results:
    """The verdict and the seconds of each fault and of each layer without a fault; in a file, if there is one.

    The file leaves out verdicts that do not judge a layer, so that the next run tries again.
    """

    VOID = ("fails", "does not compile", "the text is missing")

    def __init__(self, path: pathlib.Path | None):
        self.path = path
        self.known = json.loads(path.read_text()) if path is not None and path.exists() else {}

    def once(self, what: str, judge) -> tuple[str, float]:
        """The known result, else that of `judge`, which is then kept."""
        if what not in self.known:
            self.known[what] = judge()
            print(f"{self.known[what][0]:22}{self.known[what][1]:6.1f} s  {what}", flush=True)
            if self.path is not None:
                written = self.path.with_suffix(".new")
                kept = {key: result for key, result in self.known.items() if result[0] not in self.VOID}
                written.write_text(json.dumps(kept, indent=1))
                written.replace(self.path)
        return tuple(self.known[what])


def judge_fault(scratch: Scratch, results: Results, fault: tuple) -> tuple[str, float]:
    what, where, text, replacement, layer, _, seconds = fault
    sound, _ = results.once(f"without a fault: {layer}", lambda: scratch.try_layer(layer, TEST_SECONDS))
    if sound != "passes":
        return f"{sound} without it", 0

    def judge() -> tuple[str, float]:
        seen = scratch.plant(where, text, replacement, lambda: scratch.try_layer(layer, seconds))
        result, took = (seen, 0) if isinstance(seen, str) else seen
        return {"fails": "caught", "passes": "not caught"}.get(result, result), took

    return results.once(what, judge)


def run_layers(faults: list, jobs: int, home: pathlib.Path, results: Results) -> int:
    scratch = Scratch(home / LAYERS, jobs, client=True, environment=LAYER_ENVIRONMENT)
    verdicts = [judge_fault(scratch, results, fault) for fault in faults]
    print("\n| promise | fault | layer | limit | result |\n|---|---|---|---|---|")
    for (what, _, _, _, layer, promise, seconds), (verdict, took) in zip(faults, verdicts):
        print(f"| {promise} | {what} | `{layer}` | {seconds} s | {verdict}{f', {took:.0f} s' if took > 0 else ''} |")
    caught = sum(verdict == "caught" for verdict, _ in verdicts)
    print(f"{caught} of {len(faults)} faults caught")
    return 0 if caught == len(faults) else 1


def check(faults: list, layers: list) -> int:
    missing = [fault for fault in faults + layers if find(ROOT, fault[1], fault[2]) is None]
    for what, where, text, *_ in missing:
        print(f"{where}: not there exactly once, for the fault '{what}': {text}")
    total = len(faults) + len(layers)
    print(f"{total - len(missing)} of {total} faults have their text")
    listed = "".join(path.read_text() for path in (ROOT / "tests").rglob("CMakeLists.txt"))
    programs = set(re.findall(r"(?:duetime_test|duetime_daemon_test|add_executable)\((\w+)", listed))
    tests = set(re.findall(r"(?:(?:duetime_test|duetime_daemon_test)\(|add_test\(NAME )(\w+)", listed))
    tests |= {f"{name}_replay" for name in re.findall(r"duetime_fuzz\((\w+)", listed)}
    unknown = {test for fault in faults for test in fault[4].split()} - programs
    unknown |= {fault[4].split()[0] for fault in layers} - tests
    for test in sorted(unknown):
        print(f"{test}: no such test")
    twice = len(layers) - len({fault[0] for fault in layers})
    if twice > 0:
        print(f"{LAYERS}: {twice} faults have the description of another one")
    return 1 if missing or unknown or twice else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--table", default="", help="only the faults of this table")
    parser.add_argument("--sample", type=int, default=int(os.environ.get("DUETIME_MUTATION_SAMPLE", "0")),
                        help="so many faults, drawn by DUETIME_SEED")
    parser.add_argument("--only", default="", help="only the faults whose description contains this text")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) // 2),
                        help="scratch copies that work at once; with the layers, which run one by one: compile jobs")
    parser.add_argument("--scratch", type=pathlib.Path, help="keep the scratch copies here, so that the next run starts warm")
    parser.add_argument("--results", type=pathlib.Path, help="keep the results of the layers in this file")
    arguments = parser.parse_args()
    all_tables = tables()
    layers = all_tables.pop(LAYERS)
    faults = [fault for name, table in all_tables.items() if arguments.table in ("", name) for fault in table]
    if arguments.check:
        return check(faults, layers)
    if arguments.table == LAYERS:
        with tempfile.TemporaryDirectory() as temporary:
            home = (arguments.scratch or pathlib.Path(temporary)).resolve()
            layers = [fault for fault in layers if arguments.only in fault[0]]
            return run_layers(layers, arguments.jobs, home, Results(arguments.results))

    if arguments.sample:
        faults = random.Random(os.environ.get("DUETIME_SEED")).sample(faults, min(arguments.sample, len(faults)))
    waiting: queue.Queue = queue.Queue()
    tests = sorted({test for fault in faults for test in fault[4].split()})
    # The tests of the daemon need its client.
    client = any(test.startswith("daemon_") for test in tests)
    faults = [fault for fault in faults if arguments.only in fault[0]]
    for fault in faults:
        waiting.put(fault)
    survived = []

    def work(folder: pathlib.Path) -> None:
        scratch = Scratch(folder, max(1, (os.cpu_count() or 1) // arguments.jobs), client)
        while True:
            try:
                what, where, text, replacement, names = waiting.get_nowait()
            except queue.Empty:
                return
            seen = scratch.plant(where, text, replacement, lambda: scratch.first_to_fail(names.split()))
            caught = seen in names.split()
            if not caught:
                survived.append(what)
            print(f"{'caught' if caught else 'SURVIVED':9}{what}: {seen or 'every test passes'}", flush=True)

    with tempfile.TemporaryDirectory() as temporary:
        home = arguments.scratch or pathlib.Path(temporary)
        home.mkdir(parents=True, exist_ok=True)
        failing = Scratch(home / "0", os.cpu_count() or 1, client).first_to_fail(tests)
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
