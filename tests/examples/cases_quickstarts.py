# SPDX-License-Identifier: Apache-2.0
"""One case for each library but C++: types the commands of its README, and runs the README's first program against a daemon.
tests/integration/installed_client does so for C++."""

import glob
import os
import re
import shutil
import signal
import subprocess

from support import EXAMPLES, ROOT, Case, World, check

CASES: list[Case] = []
BUILD_SECONDS_MAX = 300
# Maven needs more than a dependency: the project of an example has the rest.
POM = os.path.join(EXAMPLES, "order-timeout", "pom.xml")


def blocks(library: str, language: str) -> list[str]:
    with open(os.path.join(ROOT, "client", library, "README.md"), encoding="utf-8") as file:
        return re.findall(rf"^```{language}\n(.*?)^```$", file.read(), re.DOTALL | re.MULTILINE)


def prepare(world: World, library: str, language: str, file: str) -> str:
    """A new project with the README's program. The repository is beside it, and what commands name is within it."""
    folder = os.path.join(world.folder, "quickstart-" + library)
    project = os.path.join(folder, "project")
    path = os.path.join(project, file)
    os.makedirs(os.path.dirname(path))
    os.symlink(ROOT, os.path.join(folder, "duetime"))
    os.symlink(os.path.join(ROOT, "client"), os.path.join(project, "client"))
    with open(path, "w", encoding="utf-8") as out:
        program = blocks(library, language)[0]
        check("127.0.0.1:7788" in program, "the program names no server")
        out.write(program.replace("127.0.0.1:7788", world.environment["DUETIME_SERVER"]))
    return project


def build(world: World, folder: str, line: str) -> None:
    """A command that may download and compile."""
    done = subprocess.run(["bash", "-c", line], cwd=folder, env=world.environment, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=BUILD_SECONDS_MAX, check=False)
    check(done.returncode == 0, f"`{line}` ended with {done.returncode}; it printed:\n{done.stdout}")


def type_commands(world: World, library: str, folder: str) -> None:
    """The first block of commands of the README."""
    for line in blocks(library, "sh")[0].splitlines():
        build(world, folder, line.replace("COPY", ROOT))


def receive(world: World, project: str, *words: str, code: int = 0) -> None:
    program = world.start(*words, folder=project)
    program.expect("received remind 17")
    program.end(signal.SIGTERM, code)


def quickstart_go(world: World) -> None:
    project = prepare(world, "go", "go", "main.go")
    build(world, project, "go mod init worker")
    type_commands(world, "go", project)
    build(world, project, "go build -o worker .")
    receive(world, project, "./worker")


def quickstart_python(world: World) -> None:
    project = prepare(world, "python", "python", "worker.py")
    type_commands(world, "python", project)
    receive(world, project, "venv/bin/python", "-u", "worker.py")


def quickstart_node(world: World) -> None:
    project = prepare(world, "node", "js", "worker.js")
    # What npm packs stays in the repository.
    world.closing.callback(lambda: [os.remove(one) for one in glob.glob(os.path.join(ROOT, "client/node/*.tgz"))])
    type_commands(world, "node", project)
    receive(world, project, "node", "worker.js")


def quickstart_java(world: World) -> None:
    project = prepare(world, "java", "java", "src/main/java/Example.java")
    shutil.copy(POM, project)
    with open(POM, encoding="utf-8") as file:
        check(re.sub(r"\s", "", blocks("java", "xml")[0]) in re.sub(r"\s", "", file.read()), "another dependency")
    # In the repository: Maven finds no protos through a link.
    type_commands(world, "java", ROOT)
    build(world, project, "mvn -q -B compile")
    # The JVM ends by the signal, after its hooks.
    receive(world, project, "mvn", "-q", "-B", "exec:java", "-Dexec.mainClass=Example", code=128 + signal.SIGTERM)


for run in (quickstart_go, quickstart_python, quickstart_node, quickstart_java):
    CASES.append(Case(run.__name__.replace("_", "-"), "shell", run))
