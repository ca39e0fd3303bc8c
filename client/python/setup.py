# SPDX-License-Identifier: Apache-2.0
"""Generates duetime/v1 from the protos of the repository, and builds the package."""

import glob
import os

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = os.path.dirname(os.path.abspath(__file__))
PROTO = os.path.normpath(os.path.join(HERE, "..", "..", "proto"))
OUT = os.path.join(HERE, "src")


def generate() -> None:
    from grpc_tools import protoc

    protos = sorted(glob.glob(os.path.join(PROTO, "duetime", "v1", "*.proto")))
    if not protos:
        return  # an sdist has the generated code
    well_known = os.path.join(os.path.dirname(protoc.__file__), "_proto")
    if protoc.main(["protoc", "-I", PROTO, "-I", well_known, f"--python_out={OUT}", f"--pyi_out={OUT}", *protos]) != 0:
        raise SystemExit("protoc failed")
    with open(os.path.join(OUT, "duetime", "v1", "__init__.py"), "w", encoding="utf-8") as file:
        file.write('"""Generated from the protos."""\n')


class BuildWithProtos(build_py):
    def run(self) -> None:
        generate()
        self.packages = sorted({*(self.packages or []), "duetime", "duetime.v1"})
        super().run()


class SdistWithProtos(sdist):
    def run(self) -> None:
        generate()
        super().run()


setup(cmdclass={"build_py": BuildWithProtos, "sdist": SdistWithProtos})
