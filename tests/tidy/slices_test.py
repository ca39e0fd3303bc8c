# SPDX-License-Identifier: Apache-2.0
"""Holds tests/slices.txt against the tests that ctest knows: no slice matches nothing, and no library's conformance falls out.

  slices_test.py ROOT BUILD_FOLDER CTEST
"""

import json
import os
import re
import subprocess
import sys
import unittest

ROOT = BUILD = CTEST = ""


class SlicesTest(unittest.TestCase):
    def setUp(self):
        found = subprocess.run([CTEST, "--test-dir", BUILD, "-C", "long", "--show-only=json-v1"], check=True,
                               capture_output=True, text=True)
        self.tests = {test["name"]: test for test in json.loads(found.stdout)["tests"]}
        with open(os.path.join(ROOT, "tests/slices.txt"), encoding="utf-8") as file:
            # The name, the preset, the tests, and perhaps variables.
            self.slices = [line.split() for line in file if not line.startswith("#")]
        self.assertGreater(len(self.slices), 10)
        sys.path.insert(0, os.path.join(ROOT, "tests/conformance"))

    def matches(self, test: str) -> list[list[str]]:
        """As tests/run.sh chooses."""
        return [one for one in self.slices if re.search(f"^({one[2]})$", test)]

    def test_each_slice_has_tests(self):
        empty = [name for name, preset, tests, *_ in self.slices
                 if preset == "release" and not any(re.search(f"^({tests})$", test) for test in self.tests)]
        self.assertEqual(empty, [])

    def test_each_conformance_runs_all_cases_once(self):
        from run import LIBRARIES
        runs = {name: test for name, test in self.tests.items() if name.startswith("conformance_")}
        runs.pop("conformance_runner", None)  # no library's
        self.assertEqual(runs.keys(), {f"conformance_{library}" for library in (*LIBRARIES, "asyncio")})
        for name, test in runs.items():
            with self.subTest(name):
                # That of C++ is a part of every run of ctest. Each other one is in one slice, which sets no variables.
                expected = 0 if name == "conformance_cpp" else 1
                self.assertEqual([one[1:2] + one[3:] for one in self.matches(name)], [["release"]] * expected)
                self.assertNotIn("--case", test["command"])


if __name__ == "__main__":
    ROOT, BUILD, CTEST = sys.argv[1:4]
    unittest.main(argv=sys.argv[:1], verbosity=2)
