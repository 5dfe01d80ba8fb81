"""Real Prometheus and Alertmanager servers on loopback for tests."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

START_SECONDS = 60.0


@dataclass(frozen=True)
class Result:
    """One series of an instant query's answer; a scalar has no labels."""

    labels: Mapping[str, str]
    value: float


def free_port() -> int:
    """A TCP port of 127.0.0.1 that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def get(url: str) -> Any:
    """The JSON answer of a loopback URL."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)


@contextmanager
def server(command: Sequence[str], ready_url: str, log: Path) -> Iterator[None]:
    """Run a server until the block ends; it must answer `ready_url` first."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    try:
        end = time.monotonic() + START_SECONDS
        while not _answers(ready_url):
            assert process.poll() is None, f"{command[0]} ended: {log.read_text()[-2000:]}"
            assert time.monotonic() < end, f"{command[0]} is not ready: {log.read_text()[-2000:]}"
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except (OSError, urllib.error.URLError):
        return False


class Prometheus:
    """A running Prometheus."""

    def __init__(self, url: str) -> None:
        self.url = url

    def query(self, expr: str, at: float | None = None) -> list[Result]:
        """The answer of an instant query; a refused one fails the test with the server's reason."""
        fields = {"query": expr} if at is None else {"query": expr, "time": repr(at)}
        try:
            data = get(f"{self.url}/api/v1/query?{urllib.parse.urlencode(fields)}")["data"]
        except urllib.error.HTTPError as refusal:
            raise AssertionError(f"{expr}: {refusal.read().decode()}") from None
        if data["resultType"] == "scalar":
            return [Result({}, float(data["result"][1]))]
        return [Result(series["metric"], float(series["value"][1])) for series in data["result"]]

    def label_values(self, label: str, selector: str, start: float, end: float) -> list[str]:
        """The values of a label on the series that a selector names, between two Unix times."""
        fields = {"match[]": selector, "start": repr(start), "end": repr(end)}
        return list(get(f"{self.url}/api/v1/label/{label}/values?{urllib.parse.urlencode(fields)}")["data"])


@contextmanager
def prometheus(program: str, folder: Path, config: str, data: Path | None = None) -> Iterator[Prometheus]:
    """Run Prometheus with a configuration, and with the blocks in `data` where given."""
    (folder / "prometheus.yml").write_text(config)
    address = f"127.0.0.1:{free_port()}"
    command = [
        program,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={data or folder / 'data'}",
        "--storage.tsdb.retention.time=100y",
        f"--web.listen-address={address}",
        "--log.level=warn",
    ]
    with server(command, f"http://{address}/-/ready", folder / "prometheus.log"):
        yield Prometheus(f"http://{address}")


@contextmanager
def alertmanager(program: str, folder: Path, config: str) -> Iterator[str]:
    """Run Alertmanager with a configuration; gives its address."""
    (folder / "alertmanager.yml").write_text(config)
    address = f"127.0.0.1:{free_port()}"
    command = [
        program,
        f"--config.file={folder / 'alertmanager.yml'}",
        f"--storage.path={folder / 'alertmanager'}",
        "--cluster.listen-address=",
        f"--web.listen-address={address}",
        "--log.level=warn",
    ]
    with server(command, f"http://{address}/-/ready", folder / "alertmanager.log"):
        yield address
