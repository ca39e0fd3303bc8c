# SPDX-License-Identifier: Apache-2.0
"""Checks of the sources that need a compiler or clang-format.

  tools.py ROOT --headers CXX FLAG...  compiles each header of the product on its own that no .cc of the same name includes first
  tools.py ROOT --format CLANG_FORMAT  compares each source with what clang-format would make of it
"""

import concurrent.futures
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # The source tree stays as it is.

from tidy import OURS, SOURCES, Tree, includes_of


def headers_on_their_own(root: str, compiler: list[str]) -> list[str]:
    """Compiles the product's headers that no .cc of the same name proves to be self-contained. Returns what the compiler said."""
    tree = Tree.read(root)
    wanted = [path for path in tree.files if path.endswith(".h") and path.startswith(OURS) and
              not path.startswith("tests/") and path[:-2] + ".cc" not in tree.files]
    assert wanted, "no header to compile: the rule is broken"
    compiler = [*compiler, f"-I{root}", "-std=c++20"]
    # Precompiled for the headers that include it anyway: it is most of their cost.
    common = "absl/status/statusor.h"

    with tempfile.TemporaryDirectory() as folder:
        precompiled = os.path.join(folder, "common.h")
        with open(precompiled, "w", encoding="utf-8") as file:
            file.write(f'#include "{common}"\n')
        subprocess.run([*compiler, "-x", "c++-header", precompiled, "-o", precompiled + ".gch"], check=True)

        def compile_one(path: str) -> str:
            first = ["-include", precompiled] if common in includes_of(tree, path, set()) else []
            # Not the header itself: `#pragma once` in a main file is a warning.
            result = subprocess.run([*compiler, *first, "-fsyntax-only", "-x", "c++", "-"], text=True,
                                    input=f'#include "{path}"\n', capture_output=True, check=False)
            return f"{path}:1: self-contained: add the includes it needs\n{result.stderr}" if result.returncode else ""

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            results = list(pool.map(compile_one, wanted))
    print(f"{len(wanted)} headers compiled on their own")
    return [text for text in results if text]


def formatting(root: str, clang_format: str) -> list[str]:
    """Returns the first line of each source that clang-format would change."""
    paths = [os.path.join(root, path) for path in Tree.read(root).files if path.endswith(SOURCES) and path.startswith(OURS)]

    def check(batch: list[str]) -> str:
        return subprocess.run([clang_format, "--dry-run", "--ferror-limit=1", *batch], text=True, capture_output=True,
                              check=True).stderr

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        said = "".join(pool.map(check, (paths[i:i + 50] for i in range(0, len(paths), 50))))
    print(f"{len(paths)} files compared with their format")
    return [line for line in said.splitlines() if "-Wclang-format-violations" in line]


def main(arguments: list[str]) -> int:
    if len(arguments) > 2 and arguments[1] == "--headers":
        problems = headers_on_their_own(os.path.abspath(arguments[0]), arguments[2:])
    elif len(arguments) == 3 and arguments[1] == "--format":
        problems = formatting(os.path.abspath(arguments[0]), arguments[2])
    else:
        print(__doc__)
        return 2
    print(*problems, sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
