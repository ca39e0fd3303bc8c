# SPDX-License-Identifier: Apache-2.0
"""Shows that tidy.py can fail: for each rule a tree that breaks it and one beside it, nearly the same, that does not."""

import tidy
from documents import PICTURES

SPDX = "// SPDX-License-Identifier: Apache-2.0\n"
HEADER = SPDX + "//\n// What is in this header, in one sentence.\n#pragma once\n"


def source(path: str, line: str) -> dict[str, str]:
    return {path: (HEADER if path.endswith(".h") else SPDX) + line + "\n"}


UNNAMED = SPDX + "namespace {\nint F(%s) {}\n}\n"
WHEEL = "server/wheel/x.h"
# (rule, what breaks it, what does not)
CASES = [
    ("binary", {"client/go/go.test": "\0"}, {"tests/fuzz/corpus/x": "\0"}),
    ("layering", source(WHEEL, '#include "storage/types.h"'), source(WHEEL, '#include "server/base/check.h"')),
    ("layering", source(WHEEL, "#include <grpcpp/grpcpp.h>"), source("client/x.h", "#include <grpcpp/grpcpp.h>")),
    ("layering", source("server/delivery/x.cc", '#include "duetime/v1/messages.pb.h"'),
     source("server/rpc/x.cc", '#include "duetime/v1/messages.pb.h"')),
    ("layering", source("storage/x.cc", '#include "rocksdb/db.h"'),
     source("storage/rocksdb/x.cc", '#include "rocksdb/db.h"')),
    ("layering", source("server/runtime/x.cc", '#include "storage/rocksdb/x.h"'),
     source("server/daemon/main.cc", '#include "storage/rocksdb/x.h"')),
    ("layering", source("storage/x.h", '#include "storage/rocksdb/y.h"'),
     source("storage/repair/x.h", '#include "storage/rocksdb/y.h"')),
    ("layering", source("server/shard/x.h", '#include "storage/kv_store.h"'),
     source("server/daemon/x.h", '#include "storage/record_store.h"')),
    ("layering", source("storage/rocksdb/x.h", '#include "storage/repair/y.h"'),
     source("storage/rocksdb/x.h", '#include "storage/y.h"')),
    ("layering", source("storage/x.h", '#include "server/wheel/tick.h"'), source("storage/x.h", '#include "storage/y.h"')),
    ("layering", source("server/delivery/x.h", '#include "server/runtime/node.h"'),
     source("server/runtime/x.h", '#include "server/shard/shard.h"')),
    ("layering", source("tests/integration/x.cc", '#include "server/base/clock.h"'),
     source("tests/unit/x.cc", '#include "server/base/clock.h"')),
    ("layering", source("server/scheduler/x.h", "#include <spdlog/spdlog.h>"),
     source("server/rpc/x.h", "#include <spdlog/spdlog.h>")),
    ("layering", source("client/x.h", '#include "absl/synchronization/mutex.h"'),
     source("client/x.h", '#include "absl/strings/str_cat.h"')),
    ("layering", source("server/cron/x.h", '#include "storage/types.h"'), source("server/cron/x.h", "#include <vector>")),
    ("sleep", source("tests/unit/x.cc", "std::this_thread::sleep_for(1ms);"), source("tests/unit/x.cc", "// sleep(1)")),
    ("clock", source("server/rpc/x.cc", "auto t = std::chrono::system_clock::now();"),
     source("server/base/clock.cc", "auto t = std::chrono::system_clock::now();")),
    ("clock", source("storage/x.cc", "long t = time(nullptr);"), source("storage/x.cc", "long t = deliver_time(id);")),
    ("thread", source("storage/x.cc", "std::thread t(f);"), source("tests/x.cc", "std::thread t(f);")),
    ("cores", source("storage/x.cc", "std::thread::hardware_concurrency()"), source("storage/x.cc", "base::UsableCores()")),
    ("thread", source("server/delivery/x.cc", "std::thread t(f);"), source("server/runtime/x.cc", "std::thread t(f);")),
    ("mutex", source("server/rpc/x.h", "std::mutex mutex_;"), source("server/rpc/x.h", "base::Mutex mutex_;")),
    ("mutex", source("client/x.h", "absl::Mutex mutex_;"), source("tests/unit/x.cc", "std::mutex mutex_;")),
    ("random", source(WHEEL, "int i = rand();"), source(WHEEL, "int i = Operand();")),
    ("print", source("server/rpc/x.cc", "std::cout << 1;"), source("client/cli/x.cc", "std::cout << 1;")),
    ("assert", source(WHEEL, "assert(x);"), source(WHEEL, "static_assert(x);")),
    ("exit", source("server/rpc/x.cc", "std::abort();"), source("server/rpc/x.cc", "stream.exit();")),
    ("exception", source("storage/x.cc", "throw 1;"), source("storage/x.cc", '// they throw')),
    ("environment", source("storage/x.cc", 'getenv("X");'), source("client/cli/x.cc", 'getenv("X");')),
    ("volatile", source("storage/x.cc", "volatile int x;"), source("storage/x.cc", 'Log("volatile");')),
    ("sync", source("storage/rocksdb/x.cc", "db->Write(rocksdb::WriteOptions(), &batch);"),
     source("storage/rocksdb/x.cc", "db->Write(synced, &batch);")),
    ("hex", source("tests/unit/x_test.cc", "auto a = absl::HexStringToBytes(text);"),
     source("tests/unit/x_test.cc", "auto a = absl::BytesToHexString(text);")),
    ("disabled", source("tests/unit/x_test.cc", "TEST(A, DISABLED_B) {}"), source("tests/unit/x_test.cc", "TEST(A, B) {}")),
    ("namespace", source("client/x.cc", "using namespace std;"), source("client/x.cc", "using std::string;")),
    ("todo", source("client/x.cc", "// TO" "DO: later"), source("client/x.cc", "// to do so")),
    ("todo", {"README.md": "FIX" "ME\n"}, {"README.md": "fixed\n"}),
    ("cmake", {"client/CMakeLists.txt": "file(GLOB x *.cc)"}, {"client/CMakeLists.txt": "# no file(GLOB)"}),
    ("cmake", {"client/CMakeLists.txt": "include_directories(x)"}, {"client/CMakeLists.txt": "target_include_directories(x)"}),
    ("cmake", {"client/CMakeLists.txt": "duetime_library(x\n  DEPS duetime_base)"},
     {"client/CMakeLists.txt": "duetime_library(x\n  SRCS duetime_x.cc DEPS duetime::base)\nf(duetime_base)"}),
    ("unit", {"client/x.cc": UNNAMED % "int a", "client/y.cc": UNNAMED % "int b"},
     {"client/x.cc": UNNAMED % "int a", "client/y.cc": UNNAMED % "bool b"}),
    ("glossary", source("storage/x.h", "struct Fate {};"), source("storage/x.h", "struct Tombstone {};  // Fate")),
    ("glossary", source("client/x.h", "int max_fate_ms;"), source("client/x.h", "int fatek;")),
    ("glossary", source("server/rpc/x.h", "int outbox_;"), source("server/rpc/x.h", "int output_;")),
    ("label", {"tests/CMakeLists.txt": 'duetime_test(x LABEL "unit;slow"'},
     {"tests/CMakeLists.txt": 'duetime_test(x LABEL "unit;threads"'}),
    ("unbuilt", {"tests/unit/CMakeLists.txt": "# a_test.cc\nf(b_test.cc)", "tests/unit/a_test.cc": ""},
     {"tests/unit/CMakeLists.txt": "f(a_test.cc)", "tests/unit/a_test.cc": ""}),
    ("unbuilt", {"tests/CMakeLists.txt": "foreach(n IN ITEMS b)\nf(unit/${n}_test.cc)", "tests/unit/a_test.cc": ""},
     {"tests/CMakeLists.txt": "foreach(n IN ITEMS a)\nf(unit/${n}_test.cc)", "tests/unit/a_test.cc": ""}),
    ("crowd", {f"client/x{i}.h": HEADER for i in range(61)}, {f"client/x{i}.h": HEADER for i in range(60)}),
    ("length", source("client/x.cc", "\n" * 600), source("client/x.cc", "\n" * 590)),
    ("length", source("server/daemon/main.cc", "\n" * 100), source("server/daemon/main.cc", "\n" * 90)),
    ("columns", source("client/x.cc", "int x = " + "1 + " * 25 + "1;"), source("client/x.cc", "int x = 1;")),
    ("spdx", {"client/x.cc": "int x;\n"}, {"deploy/x.sh": "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n"}),
    ("guard", {"client/x.h": SPDX + "#ifndef X\n"}, {"client/x.h": HEADER}),
    ("header comment", {"client/x.h": SPDX + "#pragma once\n"}, {"client/x.h": HEADER}),
    ("own header", source("client/x.cc", "#include <vector>") | source("client/x.h", ""),
     source("client/x.cc", '#include "client/x.h"') | source("client/x.h", "")),
    ("uses", source("tests/unit/x.cc", 'absl::StrCat("x");'),
     {**source("tests/unit/x.cc", '#include "tests/unit/x.h"\nabsl::StrCat("x");  // Not absl::StrJoin.'),
      **source("tests/unit/x.h", '#include "absl/strings/str_cat.h"')}),
    ("includes", source("client/x.h", "".join(f'#include "client/{i}.h"\n' for i in range(9))),
     source("client/x.h", "".join(f'#include "client/{i}.h"\n' for i in range(8)))),
    ("nolint", source("client/x.h", "int x;  // NOLINT"), source("client/x.h", "int x;  // NOLINT(a-b): the ABI wants it")),
    ("nolint", source("client/x.h", "int x;  // NOLINT(a-b): why\n" * 11), source("client/x.h", "// NOLINT(a-b): why\n" * 10)),
    ("top level", {"tools/x.md": ""}, {"deploy/x.md": ""}),
    ("room", {"server/util/x.md": ""}, {"server/wheel/x.md": ""}),
    ("room table", {"README.md": "| `proto` | x |", "client/x.md": ""},
     {"README.md": "| `client` | x |\n| `tests` | x |", "client/x.md": "", "tests/README.md": ""}),
    ("room table", {"README.md": "| `client` | x |"}, {"README.md": "| `tests` | x |", "tests/README.md": ""}),
    ("room table", {"README.md": "| `server` | x |", "server/README.md": "| `server/rpc` | x |", "server/x/y.md": ""},
     {"README.md": "| `server` | x |", "server/README.md": "| `server/rpc` | x |\n\n| `Get` | x |", "server/rpc/y.md": ""}),
    ("room table", {"server/x/y.md": ""},
     {"README.md": "| `server` | x |", "server/README.md": "| `server/rpc` | x |", "server/rpc/y.md": ""}),
    ("links", {"deploy/x.md": "\n[y](y.md)"},
     {"deploy/x.md": "[y](../proto/y.md#a-b) [z](https://z) `[a](b)`\n```\n[a](b)\n```\n", "proto/y.md": "# A: b"}),
    ("links", {"deploy/x.md": '<img src="y.png">'}, {"deploy/x.md": '<img src="y.png">', "deploy/y.png": ""}),
    ("links", {"deploy/x.md": "<!-- include x.md -->"}, {"deploy/x.md": "<!-- include deploy/x.md -->"}),
    ("links", {"deploy/x.md": "[y](y.md#c)", "deploy/y.md": "# A"}, {"deploy/x.md": "[y](#a)\n# A"}),
    ("pictures", {"x.md": "x.png", PICTURES + "x.png": "\0" "200001"},
     {"x.md": "x.png", PICTURES + "x.png": "\0" "200000"}),
    ("pictures", {"x.md": "x.png", PICTURES + "y.svg": ""}, {"x.md": "y.svg", PICTURES + "y.svg": ""}),
    ("binary", {"deploy/x.png": "\0"}, {PICTURES + "x.png": "\0"}),
    ("length", {"README.md": "\n" * 151}, {"README.md": "\n" * 150}),
    ("workplace", {"README.md": "see /wo" "rk/main"}, {"README.md": "see how it /works"}),
]


def rules_that_fire(files: dict[str, str]) -> set[str]:
    tree = tidy.Tree(files)
    return {finding.rule for check in tidy.RULES for finding in check(tree)}


def run() -> int:
    wrong = []
    for number, (name, bad, good) in enumerate(CASES, 1):
        if name not in rules_that_fire(bad):
            wrong.append(f"case {number}: {name} is silent on {bad}")
        if name in rules_that_fire(good):
            wrong.append(f"case {number}: {name} fires on {good}")
    # Every rule of the tables has a case, so that a new one cannot be added without.
    wrong += [f"{name}: no case" for name in sorted({entry[0] for entry in tidy.BANNED} - {case[0] for case in CASES})]
    print(f"{len(CASES)} cases, {len(wrong)} wrong", *wrong, sep="\n")
    return 1 if wrong else 0
