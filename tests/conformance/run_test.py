# SPDX-License-Identifier: Apache-2.0
"""Tests the runner: every case runs once, or the run fails.

  run_test.py DUETIMED
"""

import glob
import os
import re
import sys
import time
import unittest
from unittest import mock

import harness
import run

HERE = os.path.dirname(os.path.abspath(__file__))
DUETIMED = ""
# A driver that only says hello.
DRIVER = [sys.executable, "-c", """
import sys
for _ in sys.stdin:
    print('{"id": 1, "ok": {"language": "none"}}', flush=True)
"""]


class RunnerTest(unittest.TestCase):
    def run_cases(self, *functions) -> run.Run:
        cases = [harness.Case(f"case.{number}", function, "") for number, function in enumerate(functions)]
        one = run.Run("none", DRIVER, DUETIMED, jobs=2)
        with mock.patch("builtins.print"), mock.patch("threading.excepthook"):
            one.run(cases)
        return one

    def test_every_case_counts_once(self):
        def fails(_):
            raise harness.Wrong("as planned")
        one = self.run_cases(*[lambda _: None] * 7, *[fails] * 3)
        self.assertEqual((one.passed, one.failed, one.skipped), (7, 3, 0))

    def test_a_case_that_ends_its_thread_fails_and_so_do_those_that_did_not_run(self):
        def ends_the_thread(_):
            time.sleep(0.1)
            sys.exit()
        one = self.run_cases(*[ends_the_thread] * 2, *[lambda _: None] * 3)
        self.assertEqual(one.passed + one.failed, 5)
        self.assertGreaterEqual(one.failed, 2)

    def test_every_file_of_cases_is_read(self):
        written = []
        for path in glob.glob(os.path.join(HERE, "cases_*.py")):
            with open(path, encoding="utf-8") as file:
                names = re.findall(r"^@case\(\"([\w.]+)\"", file.read(), re.MULTILINE)
            self.assertTrue(names or path.endswith("cases_repeats.py"), path)
            written += names
        self.assertGreater(len(written), 50)
        self.assertLessEqual(set(written), {one.name for one in run.CASES})


if __name__ == "__main__":
    DUETIMED = sys.argv[1]
    unittest.main(argv=sys.argv[:1], verbosity=2)
