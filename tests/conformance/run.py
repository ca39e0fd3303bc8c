#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the conformance cases with the client libraries, against the built daemon.

  run.py                                        every library
  run.py --driver cpp --driver go               these libraries
  run.py --driver-command 'python3 driver.py'   a program that speaks PROTOCOL.md
  run.py --case 'subscriber.*' --jobs 1         some cases, one by one

The last line is "N passed, N failed". Exits 0 only if nothing failed. A library whose tools are missing is skipped; it is a
failure with --require, or if DUETIME_CI is set.
"""

import argparse
import collections
import fnmatch
import glob
import importlib
import os
import queue
import shlex
import sys
import tempfile
import threading
import time
import traceback

from driver import Broken, CallError, Driver, Missing
from harness import CASES, Case, World, Wrong
from server import Daemon

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# The cases register themselves.
for path in sorted(glob.glob(os.path.join(os.path.dirname(os.path.abspath(__file__)), "cases_*.py"))):
    importlib.import_module(os.path.basename(path).removesuffix(".py"))
LIBRARIES = ["cpp", "python", "go", "node", "java"]


def driver_of(library: str) -> str:
    folder = "tests/conformance/cpp" if library == "cpp" else f"client/{library}/conformance"
    return os.path.join(ROOT, folder, "driver")


def newest_daemon() -> str | None:
    found = glob.glob(os.path.join(ROOT, "build/*/server/duetimed"))
    return max(found, key=os.path.getmtime, default=None)


class Run:
    """The cases with one library. Each of the `jobs` threads has a driver of its own; all share a daemon."""

    def __init__(self, name: str, command: list[str], program: str, jobs: int):
        self.name, self.command, self.program, self.jobs = name, command, program, jobs
        self.passed, self.failed, self.skipped = 0, 0, 0
        self._reported = collections.Counter()
        self._lock = threading.Lock()
        self._cases: queue.SimpleQueue[Case] = queue.SimpleQueue()

    def run(self, cases: list[Case]) -> None:
        """Raises Missing if the library's tools are not here."""
        first = Driver(self.command)
        for case in cases:
            self._cases.put(case)
        with tempfile.TemporaryDirectory(prefix="duetime-conformance-") as folder:
            daemon = Daemon(self.program, folder)
            try:
                threads = [threading.Thread(target=self._work, args=(driver, daemon, folder))
                           for driver in [first] + [None] * (min(self.jobs, len(cases)) - 1)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
            finally:
                daemon.kill()
        for case in cases:
            if (times := self._reported[case.name]) != 1:
                self._report(case, "failed", time.monotonic(), f"its result was reported {times} times")

    def _work(self, driver: Driver | None, daemon: Daemon, folder: str) -> None:
        while True:
            try:
                case = self._cases.get_nowait()
            except queue.Empty:
                break
            problem = None
            start = time.monotonic()
            try:
                driver = driver or Driver(self.command)
                if case.needs in driver.lacks:
                    self._report(case, "skipped", start, f"this library has no {case.needs}")
                    continue
                problem = self._run(case, driver, daemon, folder)
            except (Missing, Broken) as error:
                problem = str(error)
            self._report(case, "failed" if problem else "passed", start, problem)
            if problem and driver is not None:
                # The next case begins with a driver that knows nothing of this one.
                driver.kill()
                driver = None
        if driver is not None and (code := driver.close()) != 0:
            self._report(Case("driver.end", None, ""), "failed", time.monotonic(),
                         f"the driver ended with {code}, or not within 20 s\n{driver.log()}")

    def _run(self, case: Case, driver: Driver, daemon: Daemon, folder: str) -> str | None:
        """Why the case failed, or None."""
        world = World(case.name, driver, daemon, self.program, folder)
        try:
            with world.closing:
                case.run(world)
            return None
        except (Wrong, CallError, Broken) as error:
            frames = traceback.extract_tb(error.__traceback__)
            place = next((frame for frame in reversed(frames) if "cases_" in frame.filename), frames[-1])
            log = f"\nthe driver's standard error:\n{driver.log()}" if driver.log().strip() else ""
            return f"{os.path.basename(place.filename)}:{place.lineno}: {str(error)[:2000]}{log}"
        except Exception:  # A fault of a case or of this runner fails the case, too.
            return traceback.format_exc()

    def _report(self, case: Case, result: str, start: float, text: str | None) -> None:
        with self._lock:
            setattr(self, result, getattr(self, result) + 1)
            self._reported[case.name] += 1
            line = f"{result:8}{self.name} {case.name} ({time.monotonic() - start:.1f} s)"
            print(line + (f": {text}" if text else ""), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--driver", action="append", choices=LIBRARIES, help="a library; may be repeated; default: all")
    parser.add_argument("--driver-command", help="a command that starts a driver")
    parser.add_argument("--duetimed", default=newest_daemon(), help="the daemon; default: the newest one below build/")
    parser.add_argument("--case", action="append", help="only cases whose names match this pattern; may be repeated")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    parser.add_argument("--jobs", type=int, default=4, help="cases at once, most of which wait (default 4)")
    parser.add_argument("--require", action="store_true", help="a library whose tools are missing is a failure")
    options = parser.parse_args()

    cases = [case for case in CASES if any(fnmatch.fnmatch(case.name, glob) for glob in options.case or ["*"])]
    if options.list:
        print("\n".join(case.name for case in cases))
        return 0
    if not cases or options.duetimed is None:
        print("no case has such a name" if not cases else "no daemon is built: see --duetimed", file=sys.stderr)
        return 2
    runs = [Run(name, [driver_of(name)], options.duetimed, options.jobs) for name in options.driver or LIBRARIES]
    if options.driver_command:
        runs = [Run("driver", shlex.split(options.driver_command), options.duetimed, options.jobs)]
    passed = failed = 0
    for run in runs:
        start = time.monotonic()
        try:
            run.run(cases)
            print(f"{run.name}: {run.passed} passed, {run.failed} failed, {run.skipped} skipped "
                  f"in {time.monotonic() - start:.0f} s")
        except (Missing, Broken) as error:
            must = isinstance(error, Broken) or options.require or bool(os.environ.get("DUETIME_CI"))
            run.failed += must
            print(f"{'failed' if must else 'skipped'}  {run.name}: {error}")
        passed += run.passed
        failed += run.failed
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
