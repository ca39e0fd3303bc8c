#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The house rules that no compiler and no clang-tidy checks, as a test.

  tidy.py ROOT                       checks the tree; one line "file:line: rule: what to do instead" for each finding
  tidy.py --self-test                shows that every rule fires on a bad example and is silent on a good one

A rule is a function from a Tree to findings. What differs by place stands in the tables below and nowhere else: to give a
file an allowance, add its path to the table and be ready to defend it in review. Standard library only.
"""

import collections
import os
import re
import sys
from typing import Callable, Iterator, NamedTuple

sys.dont_write_bytecode = True  # The source tree stays as it is.
import documents  # noqa: E402 pylint: disable=wrong-import-position

# --- The tables -------------------------------------------------------------------------------------------------------

# The arrows of ARCHITECTURE.md. A room may include itself and what is listed. `PROTO` stands for generated code.
PROTO = "proto"
MAIN = ["server/access", "server/cell", "server/config", "server/gateway", "server/kafka", "server/metrics",
        "server/api", "server/rpc", "server/runtime", "server/base", "storage"]
CORE = ["server/scheduler", "server/protocol", "server/wheel", "server/base", "storage"]
LAYERS = {
    "server/base": [],
    "storage": ["server/base"],
    "storage/rocksdb": ["storage", "server/base"],
    "storage/repair": ["storage/rocksdb", "storage", "server/base"],
    "server/calendar": ["server/base"],
    "server/wheel": ["server/base"],
    "server/protocol": ["server/calendar", "server/base", "storage", PROTO],
    "server/scheduler": ["server/protocol", "server/wheel", "server/base", "storage"],
    "server/delivery": CORE,
    "server/messages": ["server/delivery"] + CORE,
    "server/recurrences": ["server/calendar", "server/messages", "server/delivery"] + CORE,
    "server/catalog": ["server/scheduler", "server/protocol", "server/base", "storage", PROTO],
    "server/shard": ["server/recurrences", "server/messages", "server/delivery"] + CORE,
    "server/cell": ["server/base", "storage"],
    "server/kafka": ["server/cell", "server/base"],
    "server/query": ["server/protocol", "server/base", "storage"],
    "server/runtime": ["server/catalog", "server/shard", "server/delivery"] + CORE,
    "server/access": ["server/base"],
    "server/metrics": ["server/runtime", "server/protocol", "server/base", "storage"],
    "server/rpc": ["server/access", "server/metrics", "server/base"],
    "server/api": ["server/access", "server/metrics", "server/rpc", "server/runtime", "server/catalog",
                   "server/cell", "server/query", "server/shard", "server/delivery", "server/protocol", "server/calendar",
                   "server/base", "storage", PROTO],
    "server/gateway": ["client", "server/api", "server/metrics", "server/rpc", "server/base", "storage", PROTO],
    "server/config": ["server/access", "server/api", "server/cell", "server/gateway", "server/rpc", "server/metrics",
                      "server/runtime", "server/base", "storage"],
    "server/daemon": MAIN,
    "server/daemon/fetch.cc": MAIN + ["server/daemon", "client"],
    "client": ["server/base", PROTO],
    "tests/support": ["server/base", "storage", "server", "client", PROTO],
    "tests/integration": ["client", "tests/support", PROTO],
    "tests/crash": ["server/base", "client", "storage", "server", "tests/support", PROTO],
    "tests": ["server/base", "storage", "server", "client", "tests", PROTO],
}

# Headers of libraries: who may name them. Everyone may name std and abseil.
LIBRARIES = [
    (r"(grpcpp|grpc|google)/|.*\.pb\.h$", "gRPC and Protobuf end at server/rpc and client",
     ["server/api/", "server/gateway/", "server/rpc/", "server/catalog/catalog_records.cc", "server/protocol/object_codec.h",
      "server/protocol/operation.cc", "server/protocol/recurrence_state.cc", "server/protocol/settings.h",
      "server/protocol/subscription_state.cc", "client/",
      "tests/"]),
    (r"rocksdb/", "RocksDB is named in storage/rocksdb and storage/repair only: use storage::MessageStore",
     ["storage/rocksdb/", "storage/repair/", "tests/crash/", "tests/bench/", "tests/unit/storage/",
      "tests/support/unsynced_fs.", "tests/support/rocksdb_disk."]),
    (r"storage/rocksdb/", "only the daemon and tests name the store on disk: use storage::MessageStore",
     ["storage/rocksdb/", "storage/repair/", "server/daemon/", "tests/"]),
    (r"storage/(kv_store|record_store|record_writer)\.h", "rooms above the storage use storage::MessageStore",
     ["storage/", "server/daemon/", "tests/"]),
    (r"storage/repair/", "only the daemon and tests name what reads whole data directories",
     ["storage/repair/", "server/daemon/", "tests/"]),
    (r"spdlog/", "a pure room does not log: return a Status or count it",
     ["server/config/", "server/metrics/", "server/runtime/", "server/api/", "server/gateway/", "server/rpc/", "server/daemon/",
      "tests/"]),
    (r"prometheus/", "metrics are exposed by server/metrics", ["server/metrics/", "tests/"]),
    (r"toml\+\+", "TOML files are read by server/config, server/access and the token file of client/cli",
     ["server/access/", "server/config/", "client/cli/connection/token_file.cc", "tests/"]),
    (r"CLI/", "command lines are read by server/config and client/cli", ["server/config/", "client/cli/", "tests/"]),
    (r"librdkafka/", "Kafka is spoken by server/kafka: use cell::Log", ["server/kafka/", "tests/cells/", "tests/unit/kafka/"]),
    (r"httplib", "HTTP is spoken by the console only", ["client/cli/console/"]),
    (r"nlohmann/", "JSON is for the command line tool, the logs and JWTs",
     ["client/cli/", "server/access/jwt_verifier.cc", "server/runtime/", "tests/"]),
    (r"absl/synchronization/", "the packaged absl::Mutex looks like a race to TSan: use server/base/mutex.h",
     ["server/daemon/main.cc", "client/cli/main.cc", "tests/"]),  # There to switch its deadlock detector off.
]

# Calls that look harmless and are not. The text is matched against code without comments and string literals.
BANNED = [
    ("sleep", r"\b(sleep_for|sleep_until|usleep|nanosleep|SleepFor)\b|(?<![\w.>])sleep\s*\(",
     "wait for an event with a deadline (base::CondVar, a future, poll)",
     ["client/cpp/caller.cc", "client/cpp/testing/", "tests/cells/", "tests/crash/", "tests/bench/"]),
    ("clock", r"\b(system_clock|steady_clock|high_resolution_clock)::now\b|\bclock_gettime\b|\bgettimeofday\b"
              r"|\babsl::(Now|GetCurrentTimeNanos)\b|\bgpr_now\b|(?<![\w.>])time\s*\((nullptr|NULL|0)\)",
     "time is an argument; code that must ask for the time has a base::Clock",
     # The one of rpc makes deadlines in gRPC's own terms.
     ["server/base/clock.cc", "server/base/mutex.h", "server/rpc/grpc_time.h", "client/",
      "tests/unit/client/", "tests/unit/rpc/", "tests/cells/", "tests/crash/", "tests/bench/", "tests/integration/",
      "tests/support/"]),
    ("thread", r"\bstd::(jthread|async)\b|\bstd::thread\b(?!::hardware_concurrency)|\bpthread_create\b",
     "threads live in server/runtime, server/rpc and client: post a command to the shard",
     # A member that follows its cell has no shards yet.
     ["server/daemon/cell.cc", "server/runtime/", "server/rpc/", "server/metrics/page_server.h", "server/metrics/page_server.cc",
      "client/", "tests/"]),
    ("cores", r"\bhardware_concurrency\b|\bget_nprocs|\b_SC_NPROCESSORS_", "base::UsableCores() knows the limits of a container",
     ["server/base/cores.cc", "tests/"]),
    ("mutex", r"\bstd::(mutex|shared_mutex|recursive_mutex|condition_variable|lock_guard|unique_lock|scoped_lock)\b",
     "use base::Mutex, MutexLock and CondVar, which clang's analysis can check",
     ["server/base/mutex.h", "tests/"]),
    ("mutex", r"\babsl::(Mutex|MutexLock|CondVar|Notification)\b",
     "the packaged absl::Mutex looks like a race to TSan: use server/base/mutex.h", []),
    ("random", r"(?<![\w.>:])(std::)?(rand|srand|random|drand48)\s*\(|\brandom_device\b",
     "take a seeded generator as an argument", ["client/", "storage/rocksdb/", "tests/"]),
    ("print", r"\bstd::(cout|cerr|clog)\b|(?<![\w.>])(std::)?(printf|puts|putchar|fprintf)\s*\(",
     "log through spdlog, or return a Status",
     ["client/cli/", "client/cpp/callback.h", "server/daemon/main.cc", "server/config/", "server/base/check.cc", "tests/"]),
    ("assert", r"(?<!static_)\bassert\s*\(|<cassert>|<assert\.h>", "use DT_CHECK, which stays on", []),
    ("exit", r"(?<![\w.>:])(std::)?(exit|_exit|quick_exit|abort)\s*\(",
     "return a Status to main; for what cannot happen, DT_CHECK",
     ["server/base/check.cc", "server/daemon/main.cc", "client/cli/", "storage/", "tests/"]),
    ("exception", r"\bthrow\b|\bcatch\s*\(", "return an absl::Status",
     ["server/access/policy_file.cc", "server/config/", "server/runtime/audit_log.cc", "client/cli/",
      "client/cpp/callback.h", "tests/"]),
    ("environment", r"\bgetenv\b", "a knob is declared in server/config",
     ["server/config/", "server/runtime/service_notify.cc", "server/calendar/zone.cc", "client/cli/", "client/cpp/testing/",
      "tests/"]),
    ("volatile", r"\bvolatile\b", "std::atomic, or a lock", ["tests/"]),
    ("sync", r"\bWriteOptions\s*\(\s*\)|\bWriteOptions\s*\{\s*\}", "say `sync` at each write", []),
    ("disabled", r"\bDISABLED_", "a test that does not run is not there: repair it or remove it", []),
    ("hex", r"\bHexStringToBytes\b", "Debian 12 and 13 have no form in common: write the bytes as a literal", []),
    ("namespace", r"^\s*using\s+namespace\b", "name what you use", []),
    ("todo", r"\b(TODO|FIXME|XXX|HACK)\b", "do it, or write an issue", []),
]
# These are looked for in comments, too.
BANNED_IN_COMMENTS = {"todo"}

# Words of the glossary in ARCHITECTURE.md, and names that it replaces. Matched within identifiers; the places still use the
# old name.
GLOSSARY = [
    (r"Desk(?![a-z])|\bdesk_", "MessageParts", []),
    (r"Latch(es)?(?![a-z])|\blatch(es)?_", "MessageLocks", ["server/messages/"]),
    (r"SafeMark|\bsafe_mark|\bWriteSafe|\b[wW]_safe", "LowWatermark, low_watermark", []),
    (r"Outbox|\boutbox", "PendingBatch", []),
    (r"Fate(?![a-z])|(?<![a-zA-Z])fate(?![a-z])", "Tombstone", []),
    (r"\b(class|struct|using) Trace\b|\bstorage::Trace\b", "Locator", []),
    (r"testimony", "status", []),
    (r"\bkNobody\b", "kNoReply", []),
    (r"Standings?(?![a-z])|\bstandings?(?![a-z])", "DeliveryStatus, status",
     ["server/api/messages/", "server/delivery/", "server/messages/", "client/cli/", "tests/"]),
    (r"Wish(?![a-z])|\bwish(es)?(?![a-z])", "Request", ["server/api/subscriptions/", "server/messages/", "tests/"]),
    (r"Parcel|\bparcel", "batch", ["server/rpc/"]),
    (r"\bwilling", "ready", ["server/delivery/"]),
    (r"DueTable", "PendingDeliveries", []),
    (r"FailureBrake", "FailureThrottle", ["tests/"]),
    (r"CatchUp(?![a-z])", "StartupRamp", ["tests/"]),
    (r"KeyHolds", "OrderingKeyLocks", ["tests/"]),
    (r"HoldBack", "the class that decides", []),
]

CMAKE_BANNED = [
    (r"\bfile\s*\(\s*GLOB", "list the files"),
    (r"^\s*(include_directories|link_libraries|link_directories|add_definitions)\s*\(", "use the target_ form"),
    (r"\bFetchContent|\bExternalProject", "find_package of a Debian package"),
    (r"^\s*set\s*\(\s*CMAKE_CXX_FLAGS\b", "hang it on duetime_options"),
]

TEST_LABELS = {"unit", "contract", "scenario", "sim", "crash", "integration", "fuzz", "bench", "tidy", "headers",
               "threads", "core", "alone"}

TOP_LEVEL = {"proto", "server", "client", "storage", "deploy", "tests", "CMakeLists.txt", "Dockerfile", "README.md",
             "SECURITY.md", "ARCHITECTURE.md", "CHANGELOG.md", "CMakePresets.json", "LICENSE"}
FOLDERS_BANNED = {"util", "utils", "common", "misc", "helper", "helpers", "manager", "handler", "handlers"}

FOLDER_SOURCES_MAX = 60
LINES_MAX = 600
MAIN_LINES_MAX = 100
COLUMNS_MAX = 100
COMMENT_COLUMNS_MAX = 130
OWN_INCLUDES_MAX = 8
# Where all calls of a completion queue meet.
OWN_INCLUDES_ALLOWED = {"server/rpc/cq_worker.h": 9}
NOLINT_MAX = 10

# The last lines: what the tools of the client libraries write, and generated code.
SKIPPED_FOLDERS = {".git", "build", ".cache", "__pycache__",
                   "node_modules", "dist", "target", ".venv", ".mypy_cache", ".pytest_cache", "duetime.egg-info", "duetimepb"}
SKIPPED_PATHS = {"client/python/src/duetime/v1"}
SOURCES = (".cc", ".h")
OURS = ("storage/", "server/", "client/", "tests/")
# What a file needs to include, itself or by our headers, for what it names. Builds that compile several files as one do not
# notice if it is missing. This is what our files use most without it.
HEADER_OF = {
    r"absl::(?:StrCat|StrAppend|Hex|kZeroPad\d)\b": "absl/strings/str_cat.h",
    r"absl::(?:StartsWith|EndsWith|StrContains|EqualsIgnoreCase)\b": "absl/strings/match.h",
    r"absl::(?:StrSplit|MaxSplits|SkipEmpty)\b": "absl/strings/str_split.h",
    r"absl::StrJoin\b": "absl/strings/str_join.h",
    r"absl::StrFormat\b": "absl/strings/str_format.h",
    r"absl::StrReplaceAll\b": "absl/strings/str_replace.h",
    r"absl::(?:ConsumePrefix|ConsumeSuffix|StripPrefix)\b": "absl/strings/strip.h",
    r"absl::Simple(?:Atoi|Atod|HexAtoi)\b": "absl/strings/numbers.h",
    r"absl::(?:CHexEscape|BytesToHexString)\b": "absl/strings/escaping.h",
    r"absl::flat_hash_map\b": "absl/container/flat_hash_map.h",
    r"absl::flat_hash_set\b": "absl/container/flat_hash_set.h",
    r"absl::AnyInvocable\b": "absl/functional/any_invocable.h",
    r"absl::c_\w+\(": "absl/algorithm/container.h",
}
# An include, as `<` or `"` and the name.
INCLUDE = re.compile(r'^#include ([<"])([^>"]+)', re.MULTILINE)


# --- The tree ---------------------------------------------------------------------------------------------------------


class Finding(NamedTuple):
    path: str
    line: int
    rule: str
    text: str


class Tree:
    """The text files of a source tree by path, and the names at its top level."""

    def __init__(self, files: dict[str, str], top_level: set[str] | None = None):
        self.files = files
        self.top_level = {path.split("/")[0] for path in files} if top_level is None else top_level
        # What a file includes itself, once it was asked for (includes_of).
        self.includes: dict[str, list[str]] = {}

    @staticmethod
    def read(root: str) -> "Tree":
        files = {}
        for folder, names, file_names in os.walk(root):
            names[:] = sorted(name for name in names if name not in SKIPPED_FOLDERS and
                              os.path.relpath(os.path.join(folder, name), root) not in SKIPPED_PATHS)
            for name in sorted(file_names):
                path = os.path.join(folder, name)
                try:
                    with open(path, encoding="utf-8") as file:
                        files[os.path.relpath(path, root)] = file.read()
                except UnicodeDecodeError:
                    files[os.path.relpath(path, root)] = f"\0{os.path.getsize(path)}"  # See binary().
        return Tree(files, set(os.listdir(root)))

    def lines(self, *suffixes: str, under: tuple[str, ...] = ("",)) -> Iterator[tuple[str, int, str]]:
        for path, text in self.files.items():
            if path.endswith(suffixes) and path.startswith(under):
                for number, line in enumerate(text.splitlines(), 1):
                    yield path, number, line

    def folders(self) -> set[str]:
        found = set()
        for path in self.files:
            while path := os.path.dirname(path):
                found.add(path)
        return found


def allowed(path: str, places: list[str]) -> bool:
    return path.startswith(tuple(places))


def code_of(line: str) -> str:
    """The line without string literals and without its comment."""
    line = re.sub(r'"(\\.|[^"\\])*"', '""', line)
    return re.sub(r"//.*|/\*.*?\*/", "", line)


def room_of(path: str) -> str | None:
    """The entry of LAYERS that a file belongs to: the longest one that fits."""
    fits = [room for room in LAYERS if path == room or path.startswith(room + "/")]
    return max(fits, key=len, default=None)


# --- The rules --------------------------------------------------------------------------------------------------------

RULES: list[Callable[[Tree], Iterator[Finding]]] = []


def rule(function):
    RULES.append(function)
    return function


@rule
def binary(tree: Tree) -> Iterator[Finding]:
    for path, text in tree.files.items():
        picture = path.startswith(documents.PICTURES) and path.endswith(".png")
        if "\0" in text and not picture and not path.startswith("tests/fuzz/corpus/"):
            yield Finding(path, 1, "binary",
                          f"no text: only inputs in tests/fuzz/corpus and pictures in {documents.PICTURES} are")


@rule
def layering(tree: Tree) -> Iterator[Finding]:
    for path, number, line in tree.lines(*SOURCES, under=OURS):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)', line)
        if not match:
            continue
        quoted, header = match[1] == '"', match[2]
        for pattern, text, places in LIBRARIES:
            if re.match(pattern, header) and not allowed(path, places):
                yield Finding(path, number, "layering", f"{header}: {text}")
        if not quoted or not header.startswith(OURS):
            continue
        room, seen = room_of(path), room_of(header)
        if room is None:
            yield Finding(path, number, "layering", "this room is not in LAYERS: give it its arrows")
        elif seen != room and not any(seen == place or seen.startswith(place + "/") for place in LAYERS[room]):
            yield Finding(path, number, "layering",
                          f"{room} may not include {seen}; it sees {', '.join(LAYERS[room]) or 'no other room'}")


@rule
def banned(tree: Tree) -> Iterator[Finding]:
    for path, number, line in tree.lines(*SOURCES, under=OURS):
        code = code_of(line)
        for name, pattern, instead, places in BANNED:
            if allowed(path, places):
                continue
            if match := re.search(pattern, line if name in BANNED_IN_COMMENTS else code):
                yield Finding(path, number, name, f"`{match[0].strip()}`: {instead}")


@rule
def glossary(tree: Tree) -> Iterator[Finding]:
    for path, number, line in tree.lines(*SOURCES, under=OURS):
        code = code_of(line)
        for pattern, instead, places in GLOSSARY:
            if (match := re.search(pattern, code)) and not allowed(path, places):
                yield Finding(path, number, "glossary", f"`{match[0]}`: the word is {instead}")


@rule
def unfinished(tree: Tree) -> Iterator[Finding]:
    """What `banned` does for sources, for all other text."""
    pattern = next(pattern for name, pattern, _, _ in BANNED if name == "todo")
    for path, number, line in tree.lines(".md", ".txt", ".sh", ".py", ".proto", ".toml", ".yaml", ".service", ".json"):
        if path != "tests/tidy/tidy.py" and re.search(pattern, line):
            yield Finding(path, number, "todo", "do it, or write an issue")


@rule
def cmake(tree: Tree) -> Iterator[Finding]:
    for path, number, line in tree.lines("CMakeLists.txt"):
        for pattern, instead in CMAKE_BANNED:
            if match := re.search(pattern, line.split("#")[0]):
                yield Finding(path, number, "cmake", f"`{match[0].strip()}`: {instead}")
        for label in ";".join(re.findall(r'\bLABEL\s+"?([\w;]+)', line)).split(";"):
            if label not in TEST_LABELS | {""}:
                yield Finding(path, number, "label", f"`{label}`: the labels are {', '.join(sorted(TEST_LABELS))}")
    for path, text in tree.files.items():
        if not path.endswith("CMakeLists.txt"):
            continue
        for call in re.finditer(r"\b(target_link_libraries|duetime_library|duetime_test)\s*\(\s*\S+([^)]*)\)", text):
            for target in re.findall(r"(?<![\w:./])duetime_\w+(?![\w.])", call[2]):
                if target != "duetime_options":
                    line = text.count("\n", 0, call.start()) + 1
                    yield Finding(path, line, "cmake", f"`{target}`: link by alias, {target.replace('_', '::', 1)}")


@rule
def built(tree: Tree) -> Iterator[Finding]:
    """Every .cc is named by the CMakeLists.txt beside it or above it; a name with ${...} counts if the rest fits."""
    named: set[str] = set()
    patterns: list[re.Pattern] = []
    for path, text in tree.files.items():
        if os.path.basename(path) != "CMakeLists.txt":
            continue
        text = re.sub(r"#.*", "", text)
        words = set(re.findall(r"[\w/.-]+", text))
        for token in re.findall(r"[\w/.${}-]+\.cc", text):
            full = os.path.normpath(os.path.join(os.path.dirname(path), token))
            if "${" not in full:
                named.add(full)
                continue
            # A loop over names: the file is built if its name, without the fixed part, is a word of this list.
            parts = [re.escape(part) for part in re.split(r"\$\{\w+\}", full)]
            patterns.append((re.compile(r"([\w-]+)".join(parts)), words))
    for path in tree.files:
        if path.endswith(".cc") and path.startswith(OURS) and path not in named:
            if not any((match := pattern.fullmatch(path)) and set(match.groups()) <= words
                       for pattern, words in patterns):
                yield Finding(path, 1, "unbuilt", "name it in the CMakeLists.txt of its folder, or remove it")


@rule
def crowd(tree: Tree) -> Iterator[Finding]:
    sources = [path for path in tree.files if path.endswith(SOURCES) and path.startswith(OURS)]
    folders = collections.Counter(os.path.dirname(path) for path in sources)
    for folder, count in sorted(folders.items()):
        if count > FOLDER_SOURCES_MAX:
            yield Finding(folder, 1, "crowd", f"{count} sources, at most {FOLDER_SOURCES_MAX}: divide the folder by purpose")


@rule
def length(tree: Tree) -> Iterator[Finding]:
    for path, text in tree.files.items():
        count = text.count("\n")
        if path.endswith((*SOURCES, ".py", ".proto", ".sh")) and count > LINES_MAX:
            yield Finding(path, count, "length", f"{count} lines, at most {LINES_MAX}: find the second idea in it")
        if path == "server/daemon/main.cc" and count >= MAIN_LINES_MAX:
            yield Finding(path, count, "length", f"main has {count} lines: it only composes, move the rest to its room")
    for path, number, line in tree.lines(*SOURCES, ".py"):
        code = re.sub(r"\s*//.*", "", line) if path.endswith(SOURCES) else ""
        if (len(code) > COLUMNS_MAX and '"' not in code) or len(line) > COMMENT_COLUMNS_MAX:
            yield Finding(path, number, "columns", f"code {COLUMNS_MAX} columns, with a comment {COMMENT_COLUMNS_MAX}")


@rule
def opening(tree: Tree) -> Iterator[Finding]:
    for path, text in tree.files.items():
        lines = text.splitlines()
        if not path.endswith((*SOURCES, ".py", ".sh", ".proto")) or not lines:
            continue
        first = 1 if lines[0].startswith("#!") else 0
        if "SPDX-License-Identifier: Apache-2.0" not in "".join(lines[first:first + 1]):
            yield Finding(path, first + 1, "spdx", "the first line is `SPDX-License-Identifier: Apache-2.0` in a comment")
        if path.endswith(".h"):
            if "#pragma once" not in lines:
                yield Finding(path, 1, "guard", "#pragma once")
            if not any(re.match(r"// .{15}", line) and "SPDX" not in line for line in lines[:30]):
                yield Finding(path, 2, "header comment", "say what is in here and what it is for")


@rule
def includes(tree: Tree) -> Iterator[Finding]:
    """A .cc includes its own header first, which shows that the header stands on its own."""
    for path, text in tree.files.items():
        if not path.endswith(SOURCES) or not path.startswith(OURS):
            continue
        found = INCLUDE.findall(text)
        own = path[:-3] + ".h"
        if path.endswith(".cc") and own in tree.files and (not found or found[0][1] != own):
            yield Finding(path, 1, "own header", f'#include "{own}" before all others')
        mine = [header for quote, header in found if quote == '"' and header.startswith(OURS)]
        limit = OWN_INCLUDES_ALLOWED.get(path, OWN_INCLUDES_MAX)
        if path.endswith(".h") and len(mine) > limit:
            yield Finding(path, 1, "includes", f"{len(mine)} of our headers, at most {limit}: it knows too much")


@rule
def uses(tree: Tree) -> Iterator[Finding]:
    for path, text in sorted(tree.files.items()):
        if not path.endswith(SOURCES) or not path.startswith(OURS):
            continue
        code = re.sub("//.*", "", text)
        used = [(header, name) for pattern, header in HEADER_OF.items() if (name := re.search(pattern, code))]
        included = includes_of(tree, path, set()) if used else set()
        for header, name in used:
            if header not in included:
                yield Finding(path, code.count("\n", 0, name.start()) + 1, "uses", f"{name[0]}: include {header}")


def unnamed_definitions(text: str) -> Iterator[tuple[int, str]]:
    """Line and name of what stands at column 0 of an unnamed namespace; a function's name comes with its parameters."""
    inside = False
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        inside = line.startswith("namespace {") or (inside and not line.startswith("}  // namespace"))
        if not inside or line.startswith("template"):
            continue
        # Not aliases: two files may repeat one.
        if match := re.match(r"(?:struct|class|enum class) (\w+)(?! *;)", line):
            yield number, match[1]
        elif match := re.match(r"(?:inline |static )*(?:constexpr|const) [^(]*?(\w+)(?:\[[^=]*\])?(?: =|\{|;)", line):
            yield number, match[1]
        elif match := re.match(r"(?!using )[A-Za-z][\w:<>,&* ]*[ *&](\w+)(\(.*)", line):
            signature = match[2] + " ".join(part.strip() for part in lines[number:number + 4])
            types = re.sub(r"\s*\w+(?=[,)])", "", signature[:signature.find(")") + 1])
            yield number, match[1] + types


def units(tree: Tree) -> Iterator[list[str]]:
    """The sources of each unit: those of a folder of the product, and those of a test program."""
    folders: dict[str, list[str]] = {}
    for path, text in sorted(tree.files.items()):
        folder = os.path.dirname(path)
        if path.endswith(".cc") and not path.startswith("tests/"):
            folders.setdefault(folder, []).append(path)
        if path.endswith("CMakeLists.txt"):
            for sources in re.findall(r"\bduetime_test\s*\(\s*\w+\b([^)]*)\)", text):
                yield [os.path.normpath(os.path.join(folder, name)) for name in re.findall(r"[\w/.]+\.cc", sources)]
    yield from folders.values()


@rule
def unit(tree: Tree) -> Iterator[Finding]:
    """A build from scratch compiles several sources as one unit, where they share their unnamed namespaces."""
    for paths in units(tree):
        seen: dict[str, str] = {}
        for path in paths:
            for number, name in unnamed_definitions(tree.files.get(path, "")):
                other = seen.setdefault(name, path)
                if other != path:
                    yield Finding(path, number, "unit", f"`{name}` is defined in {other}, too: share it, or rename one")


@rule
def nolint(tree: Tree) -> Iterator[Finding]:
    count = 0
    for path, number, line in tree.lines(*SOURCES, under=OURS):
        if "NOLINT" in line:
            count += 1
            if not re.search(r"NOLINTEND|NOLINT\w*\([^)]+\):? \S", line):
                yield Finding(path, number, "nolint", "name the check and the reason: NOLINT(check): why")
            if count > NOLINT_MAX:
                yield Finding(path, number, "nolint", f"more than {NOLINT_MAX} in the tree: repair one")


@rule
def top_level(tree: Tree) -> Iterator[Finding]:
    for name in sorted(tree.top_level):
        if not name.startswith(".") and name not in TOP_LEVEL and name not in SKIPPED_FOLDERS:
            yield Finding(name, 1, "top level", f"the top level is {', '.join(sorted(TOP_LEVEL))}")
    for folder in sorted(tree.folders()):
        if os.path.basename(folder) in FOLDERS_BANNED:
            yield Finding(folder, 1, "room", "name the folder for what it holds")


@rule
def document_rules(tree: Tree) -> Iterator[Finding]:
    yield from (Finding(*one) for one in documents.findings(tree.files, tree.folders()))


@rule
def rooms_have_arrows(tree: Tree) -> Iterator[Finding]:
    for room in tree.folders():
        if re.fullmatch(r"(server|storage)/\w+", room) and room not in LAYERS:
            yield Finding(room, 1, "room table", "not in LAYERS of tests/tidy/tidy.py: give it its arrows")


@rule
def workplace(tree: Tree) -> Iterator[Finding]:
    """The tree speaks of itself only: no path of the machine on which somebody wrote it."""
    pattern = re.compile(r"(?<![\w.])(/wo" r"rk/|/tmp/b" r"-)")
    for path, text in tree.files.items():
        for number, line in enumerate(text.splitlines(), 1):
            if match := pattern.search(line):
                yield Finding(path, number, "workplace", f"`{match[0]}` is a path of one machine: leave it out")


# --- Headers on their own ---------------------------------------------------------------------------------------------


def includes_of(tree: Tree, path: str, seen: set[str]) -> set[str]:
    """Adds to `seen` what a file of the tree includes, directly or not, as far as the tree shows it."""
    if path not in tree.includes:
        tree.includes[path] = [name for _, name in INCLUDE.findall(tree.files.get(path, ""))]
    for name in tree.includes[path]:
        if name not in seen:
            seen.add(name)
            includes_of(tree, name, seen)
    return seen


def main(arguments: list[str]) -> int:
    if arguments == ["--self-test"]:
        import canary  # pylint: disable=import-outside-toplevel
        return canary.run()
    if len(arguments) != 1:
        print(__doc__)
        return 2
    tree = Tree.read(arguments[0])
    findings = [finding for check in RULES for finding in check(tree)]
    problems = [f"{path}:{line}: {name}: {text}" for path, line, name, text in sorted(set(findings))]
    print(f"{len(tree.files)} files, {len(RULES)} rules, {len(problems)} findings", *problems, sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
