# SPDX-License-Identifier: Apache-2.0
"""For the tests that cause alerts: servers, their metrics, and Prometheus' own judgement of the rules."""

import os
import re
import socket
import subprocess
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RULES = f"{ROOT}/deploy/monitoring/alerts.yaml"
# When the rules are asked: after so many minutes, from 1970 on.
EVAL_MINUTES = 110


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]


def rules() -> str:
    with open(RULES, encoding="utf-8") as file:
        return file.read()


class Alerts:
    """Says which rules fire for the metrics of a server.

    The rules see each number for two hours as it is now. A counter, and a backlog, grows each minute by what it grew since the
    scrape before. Times are moved to 1970, where the rules are asked. `bounds`: (text, other text) in the rules."""

    def __init__(self, folder: str, scratch: str, bounds: tuple[tuple[str, str], ...] = ()) -> None:
        path = subprocess.run([f"{ROOT}/tests/tidy/promtool/get.sh", folder], check=True, capture_output=True, text=True)
        self.promtool, self.scratch = path.stdout.strip(), scratch
        text = rules()
        for old, new in bounds:
            assert old in text, f"no rule has {old!r}"
            text = text.replace(old, new)
        with open(f"{scratch}/rules.yaml", "w", encoding="utf-8") as file:
            file.write(text)

    def firing(self, before: dict[str, float], now: dict[str, float]) -> set[str]:
        moved = time.time() - EVAL_MINUTES * 60
        series = []
        for name, value in now.items():
            grows = re.search(r"(_total|_bucket|_backlog)($|{)", name)
            # A server that was started again counts from 0.
            growth = (value - before.get(name, 0) if value >= before.get(name, 0) else value) if grows else 0
            if re.search(r"_timestamp_seconds($|{)", name) and value > 0:
                value -= moved
            series.append(f"      - {{series: '{name}', values: '{value:.6f}+{growth:.6f}x120'}}")
        text = ("rule_files: [rules.yaml]\nevaluation_interval: 1m\ntests:\n  - interval: 1m\n    input_series:\n" +
                "\n".join(series) + "\n    promql_expr_test:\n"
                f"      - {{expr: 'ALERTS{{alertstate=\"firing\"}}', eval_time: {EVAL_MINUTES}m, "
                "exp_samples: [{labels: '{}', value: 7}]}\n")
        with open(f"{self.scratch}/case.yaml", "w", encoding="utf-8") as file:
            file.write(text)
        run = subprocess.run([self.promtool, "test", "rules", f"{self.scratch}/case.yaml"], capture_output=True, text=True,
                             check=False)
        answer = run.stdout + run.stderr
        assert "exp:" in answer, f"promtool says {answer}"
        return set(re.findall(r'alertname="(\w+)"', answer))


class Server:
    """A daemon or a gateway of a test, and the tool that asks it."""

    def __init__(self, duetimed: str, duetime: str, scratch: str, *flags: str, environment: dict[str, str] | None = None) -> None:
        self.duetimed, self.duetime, self.scratch, self.flags = duetimed, duetime, scratch, flags
        self.environment = environment
        self.address, self.metrics_port = f"127.0.0.1:{free_port()}", free_port()
        # Options of the tool, such as a token.
        self.options: tuple[str, ...] = ()
        self.start("--init")

    def start(self, *more: str) -> None:
        place = () if "--gateway-cells" in self.flags else ("--data-dir", f"{self.scratch}/data", *more)
        with open(f"{self.scratch}/log", "ab") as log:
            self.process = subprocess.Popen(
                [self.duetimed, "--listen", self.address,
                 "--metrics-listen", f"127.0.0.1:{self.metrics_port}", *place, *self.flags],
                stdout=log, stderr=log, env=self.environment)
        self.wait_for(lambda: self.samples().get("up") == 1, "the server does not start")
        self.wait_for(lambda: self.ready() or "--gateway-cells" in self.flags, "the server does not serve")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def restart(self) -> None:
        self.kill()
        self.start()

    def wait_for(self, holds, what: str, seconds: float = 20) -> None:
        deadline = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > deadline or self.process.poll() is not None:
                with open(f"{self.scratch}/log", encoding="utf-8", errors="replace") as log:
                    raise AssertionError(f"{what}: {log.read()[-2000:]}")
            time.sleep(0.05)

    def get(self, page: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}{page}", timeout=10) as answer:
            return answer.read().decode()

    def ready(self) -> bool:
        try:
            return bool(self.get("/readyz"))
        except OSError:
            return False

    def samples(self) -> dict[str, float]:
        """The numbers of a scrape, with the labels that Prometheus adds."""
        target = 'job="duetime",instance="a"'
        try:
            lines = [line for line in self.get("/metrics").splitlines() if not line.startswith("#")]
        except OSError:
            return {"up": 0, f"up{{{target}}}": 0}
        found = {"up": 1.0, f"up{{{target}}}": 1.0}
        for line in lines:
            name, value = line.rsplit(" ", 1)
            own = name.partition("{")[2].removesuffix("}")
            found[f"{name.partition('{')[0]}{{{target}{',' if own else ''}{own}}}"] = float(value)
        return found

    def value(self, name: str, labels: str = "") -> float:
        return next(value for key, value in self.samples().items()
                    if key.startswith(name + "{") and labels in key)

    def tool(self, *arguments: str, may_fail: bool = False) -> subprocess.CompletedProcess:
        run = subprocess.run([self.duetime, "--server", self.address, *self.options, *arguments], capture_output=True, text=True,
                             check=False, timeout=60)
        assert may_fail or run.returncode == 0, f"{arguments}: {run.stderr}"
        return run

    def schedule(self, messages: int, topic: str = "t", delay: str = "0.01s") -> None:
        with open(f"{self.scratch}/messages", "w", encoding="utf-8") as file:
            file.write(f'{{"topic": "{topic}", "delay": "{delay}"}}\n' * messages)
        self.tool("import", "--again", f"{self.scratch}/messages", may_fail=True)
