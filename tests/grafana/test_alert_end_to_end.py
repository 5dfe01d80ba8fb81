"""One alert from the finding to the message: exporter, real Prometheus, real Alertmanager, webhook."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol

import pytest

from aidiag.collectors import registry
from aidiag.diagnose.sidecar.serving import serve
from aidiag.diagnose.sidecar.snapshot import Snapshot
from aidiag.rules.finding import Finding
from tests.grafana import fleet
from tests.grafana.servers import alertmanager, prometheus

pytestmark = pytest.mark.live

ROOT = Path(__file__).resolve().parents[2]
MESSAGE_SECONDS = 90.0


class Source(Protocol):
    """What is scraped: a sidecar whose job can be made sick and mended."""

    address: str
    """host:port of its /metrics."""

    verdict: str
    """The sentence that the alert must carry while the job is sick."""

    def fall_ill(self) -> None:
        """Bring the fault about."""

    def mend(self) -> None:
        """Take the fault away."""


@dataclass
class InventedSource:
    """The sidecar's real HTTP server and exporter over an invented snapshot, in which a finding comes and goes."""

    address: str
    verdict: str
    sick: bool = False
    disease: tuple[Finding, ...] = (fleet.SLOW_LOADER,)

    def fall_ill(self) -> None:
        """Show the finding and a consequence of it."""
        self.sick = True

    def mend(self) -> None:
        """Show neither."""
        self.sick = False

    def snapshot(self) -> Snapshot:
        """What the sidecar knows now."""
        well = replace(fleet.snapshot("node-b", 0), unix=time.time())
        return replace(well, findings=self.disease, consequences=(fleet.IDLE_GPU,)) if self.sick else well


@pytest.fixture
def source() -> Iterator[Source]:
    """The source of metrics. A real job can take its place: only this fixture knows that the findings are invented."""
    invented = InventedSource(
        "",
        "aidiag blames rank 3, on node node-b, in job train (rule input_bound, cause util_input_bound).",
    )
    server = serve(registry(), invented.snapshot, lambda: True, listen="127.0.0.1", port=0, exact=True, host="node-b")
    invented.address = f"127.0.0.1:{server.port}"
    yield invented
    server.close()


class Inbox:
    """The messages that Alertmanager has sent."""

    def __init__(self) -> None:
        self.arrived = threading.Condition()
        self.messages: list[dict[str, Any]] = []

    def add(self, message: dict[str, Any]) -> None:
        """Keep a message."""
        with self.arrived:
            self.messages.append(message)
            self.arrived.notify_all()

    def alerts(self, status: str) -> list[dict[str, Any]]:
        """Every alert of all messages so far with that status."""
        return [alert for message in self.messages for alert in message["alerts"] if alert["status"] == status]

    def wait_for(self, status: str) -> dict[str, Any]:
        """The first alert of that status; fails when none comes."""
        with self.arrived:
            assert self.arrived.wait_for(lambda: self.alerts(status), MESSAGE_SECONDS), f"no {status} message came"
            return self.alerts(status)[0]


@contextmanager
def webhook(inbox: Inbox) -> Iterator[str]:
    """A receiver of Alertmanager's messages on loopback; gives its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            inbox.add(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def inbox(source: Source, require: Callable[[str], str], tmp_path: Path) -> Iterator[Inbox]:
    """What arrives while Prometheus scrapes the source by the committed alerts and Alertmanager sends to a webhook."""
    programs = require("prometheus"), require("prometheus-alertmanager")
    messages = Inbox()
    with webhook(messages) as url:
        route = "{receiver: webhook, group_by: [alertname, job_id], group_wait: 0s, group_interval: 1s}"
        receiver = f"{{name: webhook, webhook_configs: [{{url: '{url}', send_resolved: true}}]}}"
        with alertmanager(programs[1], tmp_path, f"route: {route}\nreceivers: [{receiver}]\n") as address:
            config = {
                "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                "rule_files": [str(ROOT / "grafana" / "prometheus" / "alerts.yaml")],
                "alerting": {"alertmanagers": [{"static_configs": [{"targets": [address]}]}]},
                "scrape_configs": [{"job_name": "aidiag", "static_configs": [{"targets": [source.address]}]}],
            }
            with prometheus(programs[0], tmp_path, json.dumps(config)) as server:
                end = time.monotonic() + MESSAGE_SECONDS
                while not [up for up in server.query('up{job="aidiag"}') if up.value == 1]:
                    assert time.monotonic() < end, "Prometheus does not scrape the source"
                    time.sleep(0.2)
                yield messages


def test_the_verdict_arrives_and_so_does_its_end(source: Source, inbox: Inbox) -> None:
    """While the job is well nothing is sent; then the verdict and its remedy arrive, and at last that it is over.

    The consequence that aidiag reports beside the finding is never sent.
    """
    assert [] == inbox.messages

    source.fall_ill()
    alert = inbox.wait_for("firing")
    assert "AidiagInputBound" == alert["labels"]["alertname"]
    assert "warning" == alert["labels"]["severity"]
    assert source.verdict in alert["annotations"]["description"]
    assert alert["annotations"]["remedy"]
    assert "$labels" not in "".join(alert["annotations"].values())

    source.mend()
    over = inbox.wait_for("resolved")
    assert alert["labels"] == over["labels"]
    assert {"AidiagInputBound"} == {alert["labels"]["alertname"] for alert in inbox.alerts("firing")}
