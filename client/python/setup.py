# SPDX-License-Identifier: Apache-2.0
"""Generates duetime/v1 from the protos of the repository, and builds the package."""

import glob
import os
import re
import textwrap

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
    described = os.path.join(OUT, "duetime", "v1", "descriptors.pb")
    os.makedirs(os.path.dirname(described), exist_ok=True)
    if protoc.main(["protoc", "-I", PROTO, "-I", well_known, f"--python_out={OUT}", f"--pyi_out={OUT}", "--include_source_info",
                    f"--descriptor_set_out={described}", *protos]) != 0:
        raise SystemExit("protoc failed")
    with open(described, "rb") as file:
        calls = admin_calls(file.read())
    os.remove(described)
    for name, text in (("__init__.py", '"""Generated from the protos."""\n'), ("admin_calls.py", calls)):
        with open(os.path.join(OUT, "duetime", "v1", name), "w", encoding="utf-8") as file:
            file.write(text)


def admin_calls(descriptors: bytes) -> str:
    """The classes with a method for each call of the service Admin, with and without asyncio. The protos name the methods, their
    requests and responses; their comments are the texts. A list is an iterator over all pages."""
    from google.protobuf import descriptor_pb2

    files = descriptor_pb2.FileDescriptorSet.FromString(descriptors).file
    messages = {f".{file.package}.{message.name}": message for file in files for message in file.message_type}
    (file,) = (one for one in files if one.name == "duetime/v1/admin.proto")
    comments = {tuple(one.path): one.leading_comments for one in file.source_code_info.location}
    asynchronous, plain = [], []
    for number, method in enumerate(file.service[0].method):
        request, response = (kind.rpartition(".")[2] for kind in (method.input_type, method.output_type))
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", method.name).lower()
        items = [one for one in messages[method.output_type].field if one.label == one.LABEL_REPEATED]
        listed = any(one.name == "next_page_token" for one in messages[method.output_type].field)
        parameter = f"request: pb.{request}"
        if listed or not messages[method.input_type].field:  # it may be left out
            parameter += f" = pb.{request}()"
        text = textwrap.indent(f'"""{textwrap.dedent(comments[6, 0, 2, number]).strip()}"""', " " * 8)
        result = f"Iterator[pb.{items[0].type_name.rpartition('.')[2]}]" if listed else f"pb.{response}"
        call = (f'self._items("{method.name}", request, pb.{response}, "{items[0].name}")' if listed
                else f'await self._call("{method.name}", request, pb.{response})')
        asynchronous += [f"    {'' if listed else 'async '}def {name}(self, {parameter}) -> {'Async' if listed else ''}{result}:",
                         text, f"        return {call}", ""]
        plain += [f"    def {name}(self, {parameter}) -> {result}:", text,
                  f"        return self._loop.{'iterate' if listed else 'run'}(self._inner.{name}(request))", ""]
    return "\n".join(['"""Generated from the protos: the calls of the service Admin."""', "from __future__ import annotations",
                      "from collections.abc import AsyncIterator, Iterator", "from duetime import pb", "",
                      "class AsyncAdminCalls:", *asynchronous, "class AdminCalls:", *plain])


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
