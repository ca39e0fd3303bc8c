#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds deploy/ against the programs and the protos, so that no file there tells of a daemon that is not.

  deploy_test.py ROOT DUETIMED            runs the checks
  deploy_test.py ROOT DUETIMED --write    writes deploy/duetimed.toml anew, from `duetimed --help`, and service_config.json,
                                          from the protos
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest

ROOT = DUETIMED = ""
EXPOSURE_MAX = 2.0
COMPOSE_FILES = ("deploy/compose.yaml", "deploy/cell/compose.yaml", "deploy/cell/two-cells.yaml")

TOML_HEAD = """\
# SPDX-License-Identifier: Apache-2.0
#
# Configuration of duetimed: every knob with its meaning, unit, default and bounds. A commented line shows the default.
# Times may be written as "30s", sizes as "64MiB". Check a change with
#
#   duetimed --config FILE --check-config
#
# This file is made from `duetimed --help`, and a test compares the two.
"""
# What the example sets, because it has no default.
TOML_SET = {"data_dir": '"/var/lib/duetime"'}


def read(path: str) -> str:
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def run(*command: str) -> str:
    result = subprocess.run(command, text=True, capture_output=True, check=False, timeout=60)
    assert result.returncode == 0, f"{command}: exit {result.returncode}\n{result.stdout}{result.stderr}"
    return result.stdout


def knobs() -> list[tuple[str, str, str, str]]:
    """(group, key, description, bounds) of each knob, as `duetimed --help` prints them."""
    found = []
    group = key = ""
    text: list[str] = []

    def finish():
        if key and group != "Options":
            description, bounds = re.fullmatch(r"(.*) (\[.*\])", " ".join(text)).groups()
            found.append((group, key, description, bounds))

    for line in run(DUETIMED, "--help").splitlines():
        if match := re.fullmatch(r"(\w[\w ]*):", line):
            finish()
            group, key = match[1], ""
        elif match := re.fullmatch(r"  (?:-\w,)?--([\w-]+)(?: [A-Z]+)?\s*(.*)", line):
            finish()
            key, text = match[1].replace("-", "_"), [match[2]] if match[2] else []
        elif line.startswith("   "):
            text.append(line.strip())
        elif line:
            finish()
            key = ""
    finish()
    return found


def example_config() -> str:
    """What deploy/duetimed.toml should be."""
    defaults = dict(line.split(" = ", 1)
                    for line in run(DUETIMED, "--data-dir", "/x", "--check-config").splitlines() if " = " in line)
    parts = [TOML_HEAD]
    last = ""
    for group, key, description, bounds in knobs():
        if group != last:
            parts.append(f"\n# ---- {group}\n")
            last = group
        wrapped = textwrap.fill(description, 98, break_long_words=False, break_on_hyphens=False)
        parts.append("\n" + textwrap.indent(f"{wrapped}\n{bounds}", "# ", lambda line: True) + "\n")
        parts.append(f"{key} = {TOML_SET[key]}\n" if key in TOML_SET else f"#{key} = {defaults[key]}\n")
    return "".join(parts)


class ConfigTest(unittest.TestCase):
    def test_example_is_what_the_daemon_says(self):
        self.assertGreater(len(knobs()), 30)
        self.assertEqual(read("deploy/duetimed.toml"), example_config(), "make it anew: deploy_test.py --write")

    def test_example_is_accepted_and_changes_nothing(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            # Every knob that is commented out, switched on: the defaults must pass their own bounds.
            file.write(re.sub(r"^#(?=\w+ = )", "", read("deploy/duetimed.toml"), flags=re.MULTILINE))
            file.flush()
            self.assertEqual(run(DUETIMED, "--config", file.name, "--check-config"),
                             run(DUETIMED, "--data-dir", "/var/lib/duetime", "--check-config"))

    def test_the_health_check_waits_for_a_state_that_exists(self):
        states = [re.search(r'"state":"(\w+)"', read("Dockerfile"))[1]]
        prefix, names = re.search(r'"state":"(\w+)\((\S+)\)"', read("deploy/cell/compose.yaml")).groups()
        states += [prefix + name for name in names.split("|")]
        self.assertEqual(len(states), 3)
        for state in states:
            self.assertRegex(read("proto/duetime/v1/admin.proto"), rf"\n  {state} = \d")

    def test_the_image_gets_what_its_build_reads(self):
        sent = set(re.findall(r"^!(\S+)", read(".dockerignore"), re.MULTILINE))
        folders = re.findall(r"^\s*add_subdirectory\((\w+)\)", read("CMakeLists.txt"), re.MULTILINE)
        self.assertGreater(len(folders), 4)
        self.assertEqual([name for name in folders if not {name, f"{name}/CMakeLists.txt"} & sent], [])
        copied = re.findall(r"^COPY (?!--from)(.+) \S+$", read("Dockerfile"), re.MULTILINE)
        files = {name for line in copied for name in line.split()} - {"."}
        self.assertGreater(len(files), 1)
        # The fast tests are part of the build, and documents_test reads the commands in these.
        read_there = files | {"README.md", "deploy/METRICS.md", "deploy/RUNBOOK.md", "deploy/site/pages/*.md",
                              "deploy/image-entry.sh"}
        self.assertEqual([name for name in read_there if not {name, name.split("/")[0]} & sent], [])

    def test_the_image_has_the_page_and_the_entry(self):
        page = re.search(r"^COPY --from=page (/src/\S+/dist) (\S+)/console$", read("Dockerfile"), re.MULTILINE)
        entry = re.search(r'^ENTRYPOINT \["(\S+)"\]$', read("Dockerfile"), re.MULTILINE)[1]
        copied = " ".join(re.findall(r"^cp --parents (.*)$", read("deploy/image-root.sh"), re.MULTILINE)).split()
        self.assertLessEqual({page[2], entry}, set(copied))
        self.assertIn(f"cp deploy/image-entry.sh {entry}", read("Dockerfile"))

    def test_flags_in_the_deploy_files_exist(self):
        flags = set(re.findall(r"--([\w-]+)", run(DUETIMED, "--help")))
        compose = [re.findall(r"^\s+- --([\w-]+)", read(name), re.MULTILINE) for name in COMPOSE_FILES]
        docker = re.findall(r"--([\w-]+)", re.search(r"^exec duetimed (.*)", read("deploy/image-entry.sh"), re.MULTILINE)[1])
        unit = re.findall(r"--([\w-]+)", re.search(r"^ExecStart=(.*)", read("deploy/duetimed.service"), re.MULTILINE)[1])
        for used in (*compose, docker, unit):
            self.assertTrue(used)
            self.assertLessEqual(set(used), flags)

    def test_a_cell_is_closed_as_one_daemon_is(self):
        closed = r"^ +(?:read_only: true|cap_drop: .*|security_opt: .*|pids_limit: .*|nofile: .*|core: 0)$"
        one, cell, more = ([line.strip() for line in re.findall(closed, read(name), re.MULTILINE)] for name in COMPOSE_FILES)
        self.assertEqual(len(one), 6)
        # Once for the brokers and once for the members.
        self.assertEqual(cell, one * 2)
        # The second cell, and the gateway.
        self.assertEqual(more, one)

    def test_the_gateways_are_configured_right(self):
        text = read("deploy/cell/two-cells.yaml")
        flags = re.findall(r"^      - (--.*)$", text[text.index("  gateway:"):text.index("    ports:")], re.MULTILINE)
        self.assertIn("gateway_cells", run(DUETIMED, "--data-dir=/image", *flags, "--check-config"))
        aliases = set(re.findall(r"aliases: \[(\S+)\]", text))
        self.assertEqual(set(re.findall(r"dns:///([\w-]+):7788", text)), aliases)
        # The certificates are not there.
        config = re.sub(r'^tls_.*$', "", read("deploy/kubernetes/gateway/duetimed.toml"), flags=re.MULTILINE)
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write(config)
            file.flush()
            run(DUETIMED, "--config", file.name, "--insecure-nonloopback", "--check-config")

    def test_a_cell_names_the_brokers_that_it_has(self):
        text = read("deploy/cell/compose.yaml")
        advertised = re.findall(r"KAFKA_ADVERTISED_LISTENERS: CLIENTS://(\S+)", text)
        self.assertEqual(len(advertised), 3)
        self.assertEqual(re.findall(r"--cell-brokers=(\S+)", text), [",".join(advertised)] * 2)
        # Of the version that deploy/cell/try.sh tries.
        tried = re.findall(r"kafka_2.13</artifactId>\s+<version>(.*)</version>", read("deploy/cell/pom.xml"))
        self.assertEqual(re.findall(r"image: apache/kafka:(\S+)", text), tried)


class UnitTest(unittest.TestCase):
    def test_systemd_reads_every_line(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "duetimed.service")
            with open(path, "w", encoding="utf-8") as file:
                file.write(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", read("deploy/duetimed.service"),
                                  flags=re.MULTILINE))
            result = subprocess.run(["systemd-analyze", "verify", path], text=True, capture_output=True, check=False)
            self.assertNotIn("duetimed.service", result.stdout + result.stderr)

    def test_exposure(self):
        report = subprocess.run(
            ["systemd-analyze", "security", "--offline=yes", os.path.join(ROOT, "deploy/duetimed.service")],
            text=True, capture_output=True, check=False)
        match = re.search(r"exposure level for duetimed.service: ([\d.]+)", report.stdout)
        self.assertTrue(match, report.stdout + report.stderr)
        self.assertLessEqual(float(match[1]), EXPOSURE_MAX)


def unary_methods():
    """The services with their unary methods, each with the value of its option `repeat`."""
    services = {}
    for name in ("messages", "admin", "test_clock"):
        proto = read(f"proto/duetime/v1/{name}.proto")
        service = re.search(r"^service (\w+) \{$", proto, re.MULTILINE)[1]
        methods = re.finditer(r"^  rpc (\w+)\((stream )?.*?\brepeat: CALL_REPEAT_(\w+)", proto, re.MULTILINE | re.DOTALL)
        services[f"duetime.v1.{service}"] = {method[1]: method[3] for method in methods if not method[2]}
        assert len(services[f"duetime.v1.{service}"]) == len(re.findall(r"^  rpc \w+\((?!stream)", proto, re.MULTILINE))
    return services


def service_config():
    """What deploy/service_config.json should be. Only reads are repeated: a second Schedule without a request_id makes a
    second message, and a second Cancel of a message whose first answer was lost says ALREADY_CANCELLED."""
    # A Pull waits for 60 s at most, an advance for ten minutes, and a backup makes links to many files.
    timeouts = {"Pull": "75s", "StartBackup": "60s", "Advance": "620s", "AdvanceToNext": "620s"}
    retry = {"maxAttempts": 4, "initialBackoff": "0.1s", "maxBackoff": "2s", "backoffMultiplier": 2,
             "retryableStatusCodes": ["UNAVAILABLE"]}
    entries = {}
    for service, methods in unary_methods().items():
        for method, repeat in methods.items():
            kind = (timeouts.get(method, "10s"), repeat == "READ")
            entries.setdefault(kind, []).append({"service": service, "method": method})
    config = [{"name": names, "timeout": timeout} | ({"retryPolicy": retry} if read else {})
              for (timeout, read), names in sorted(entries.items())]
    text = json.dumps({"methodConfig": config}, indent=2)
    return re.sub(r'\{\s+("service": "[^"]+",)\s+("method": "\w+")\s+\}', r"{\1 \2}", text) + "\n"


class ServiceConfigTest(unittest.TestCase):
    def test_it_is_made_from_the_protos(self):
        self.assertEqual(read("deploy/service_config.json"), service_config(), "make it anew: deploy_test.py --write")

    def test_the_table_of_the_libraries_has_each_of_them_once(self):
        rows = re.findall(r"^\| (`\w+`[^|]*) \| (yes|no|without an etag) \|", read("client/README.md"), re.MULTILINE)
        named = [(name, repeated) for names, repeated in rows for name in re.findall(r"`(\w+)`", names)]
        words = {"READ": "yes", "SAFE": "yes", "IF_NAMED": "yes", "WITHOUT_ETAG": "without an etag", "ONCE": "no"}
        self.assertEqual(sorted(named), sorted((name, words[repeat]) for methods in unary_methods().values()
                                               for name, repeat in methods.items()))


class MonitoringTest(unittest.TestCase):
    def setUp(self):
        self.alerts = read("deploy/monitoring/alerts.yaml")
        self.board = read("deploy/monitoring/dashboard.json")

    def test_every_metric_exists(self):
        # A test of the metrics compares METRICS.md with the server.
        listed = set(re.findall(r"^\| `(duetime_\w+)`", read("deploy/METRICS.md"), re.MULTILINE))
        for text in (self.alerts, self.board):
            named = {re.sub(r"_bucket$", "", name) for name in re.findall(r"\bduetime_\w+", text)}
            self.assertGreater(len(named), 10)
            self.assertLessEqual(named, listed)

    def test_every_alert_has_a_section_and_two_cases(self):
        sections = set(re.findall(r"^## (.*)$", read("deploy/RUNBOOK.md"), re.MULTILINE))
        named = re.findall(r"runbook: (.*?), summary", self.alerts)
        alerts = re.findall(r"alert: (\w+)", self.alerts)
        self.assertEqual(len(alerts), len(named))
        self.assertLessEqual(set(named), sections)
        cases = re.findall(r'alertname="(\w+)"', read("deploy/monitoring/alerts_test.yaml"))
        self.assertEqual(sorted(cases), sorted(alerts * 2))

    def test_the_board_is_json(self):
        self.assertGreater(len(json.loads(self.board)["panels"]), 10)


class RunbookTest(unittest.TestCase):
    def test_its_metrics_and_knobs_exist(self):
        text = read("deploy/RUNBOOK.md")
        metrics = set(re.findall(r"\bduetime_\w+", text))
        self.assertGreater(len(metrics), 10)
        self.assertLessEqual(metrics, set(re.findall(r"^\| `(duetime_\w+)`", read("deploy/METRICS.md"), re.MULTILINE)))
        known = {key for _, key, _, _ in knobs()}
        # A word with an underscore between backticks is a knob, a metric, or a field of the protos.
        words = {word for word in re.findall(r"`([a-z]+_[a-z_]+)`", text) if not word.startswith("duetime_")}
        self.assertGreater(len(words & known), 5)
        folder = os.path.join(ROOT, "proto/duetime/v1")
        protos = "".join(read(f"proto/duetime/v1/{name}") for name in sorted(os.listdir(folder)))
        self.assertEqual([word for word in sorted(words - known) if not re.search(rf"\b{word}\b", protos)], [])


class ExitCodeTest(unittest.TestCase):
    def test_the_runbook_has_the_table_of_the_daemon(self):
        printed = re.findall(r"^  (\d+)  (.*)$", run(DUETIMED, "--help").split("Exit codes:")[1], re.MULTILINE)
        self.assertGreater(len(printed), 5)
        self.assertEqual(re.findall(r"^\| (\d+) \| (.*) \|$", read("deploy/RUNBOOK.md"), re.MULTILINE), printed)

    def test_a_unit_cannot_always_pass_init(self):
        for name in ("deploy/duetimed.service", *COMPOSE_FILES, "Dockerfile"):
            self.assertNotRegex(read(name), r"(?m)^[^#\n]*--init\b")


if __name__ == "__main__":
    ROOT, DUETIMED = sys.argv[1:3]
    if sys.argv[3:] == ["--write"]:
        with open(os.path.join(ROOT, "deploy/duetimed.toml"), "w", encoding="utf-8") as output:
            output.write(example_config())
        with open(os.path.join(ROOT, "deploy/service_config.json"), "w", encoding="utf-8") as output:
            output.write(service_config())
    else:
        unittest.main(argv=sys.argv[:1], verbosity=2)
