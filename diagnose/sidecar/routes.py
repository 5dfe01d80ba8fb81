"""What the sidecar serves: metrics, health, findings, state, and a page for people."""

from __future__ import annotations

import html
import time
from collections.abc import Callable, Mapping
from threading import Lock

import msgspec
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import CollectorRegistry

from aidiag.diagnose.report.escape import printable
from aidiag.diagnose.report.terminal import blamed
from aidiag.diagnose.sidecar.http import Answer, Request, Route
from aidiag.diagnose.sidecar.snapshot import Snapshot
from aidiag.rules.finding import Finding

RENDER_EVERY_SECONDS = 1.0
JSON = "application/json; charset=utf-8"

Latest = Callable[[], Snapshot | None]


class Metrics:
    """/metrics, rendered at most once a second for each format, however many scrape."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._lock = Lock()
        self._rendered: dict[str, tuple[float, bytes]] = {}

    def __call__(self, request: Request) -> Answer:
        """The exposition in the format that the scraper accepts."""
        encode, content_type = choose_encoder(request.accept)
        with self._lock:
            made, body = self._rendered.get(content_type, (0.0, b""))
            now = time.monotonic()
            if now - made >= RENDER_EVERY_SECONDS:
                body = encode(self._registry)
                if len(self._rendered) > 8:
                    self._rendered.clear()
                self._rendered[content_type] = (now, body)
        return Answer(body, content_type)


def routes(latest: Latest, registry: CollectorRegistry, alive: Callable[[], bool]) -> Mapping[str, Route]:
    """Every path and what answers it. `alive` says whether the main loop turns."""

    def healthy(request: Request) -> Answer:
        return Answer(b"ok\n") if alive() else Answer(b"the main loop stands still\n", status=503)

    def ready(request: Request) -> Answer:
        snapshot = latest()
        if snapshot is None or not snapshot.ready:
            return Answer(b"collecting has not begun\n", status=503)
        gaps = "".join(f"{gap.what}: {gap.reason}\n" for gap in snapshot.unknown)
        return Answer(f"ready\n{printable(gaps)}".encode())

    def findings(request: Request) -> Answer:
        snapshot = latest()
        body = {
            "schema": "aidiag.findings/v1",
            "findings": snapshot.findings if snapshot else (),
            "consequences": snapshot.consequences if snapshot else (),
        }
        return Answer(msgspec.json.encode(body) + b"\n", JSON)

    def state(request: Request) -> Answer:
        snapshot = latest()
        return Answer(msgspec.json.encode(_state(snapshot)) + b"\n", JSON)

    return {
        "/metrics": Metrics(registry),
        "/-/healthy": healthy,
        "/-/ready": ready,
        "/api/v1/findings": findings,
        "/api/v1/state": state,
        "/": lambda request: Answer(page(latest()).encode(), "text/html; charset=utf-8"),
    }


def _state(snapshot: Snapshot | None) -> dict[str, object]:
    if snapshot is None:
        return {"schema": "aidiag.state/v1", "ready": False}
    return {
        "schema": "aidiag.state/v1",
        "ready": snapshot.ready,
        "host": snapshot.host,
        "unix": snapshot.unix,
        "job": snapshot.job,
        "ranks": snapshot.ranks,
        "unknown": snapshot.unknown,
        "samples": [
            {
                "signal": sample.signal,
                "kind": sample.subject.kind,
                "name": sample.subject.name,
                "host": sample.subject.host,
                "job": sample.subject.job,
                "labels": dict(sample.labels),
                "value": sample.value,
                "unix": sample.time + snapshot.unix - snapshot.monotonic,
            }
            for sample in snapshot.samples
        ],
    }


STYLE = (
    "body{font:15px system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;color:#1b1f24}"
    "table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #d0d7de}"
    ".critical{color:#b42318}.warning{color:#8a5a00}.info{color:#1f5fbf}.quiet{color:#5b6570}h2{margin-top:2rem}"
)


def page(snapshot: Snapshot | None) -> str:
    """The page for people: findings, ranks, what cannot be seen. No script, nothing loaded from elsewhere."""
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta http-equiv=refresh content=5>",
        f"<meta name=viewport content='width=device-width'><title>aidiag</title><style>{STYLE}</style><h1>aidiag</h1>",
    ]
    if snapshot is None:
        return "".join([*parts, "<p>Collecting has not begun."])
    job = f"job {_html(snapshot.job.id)} · " if snapshot.job.id else ""
    parts.append(f"<p>{job}host {_html(snapshot.host)}<h2>Findings</h2>")
    if not snapshot.findings:
        parts.append("<p>Nothing is wrong as far as can be seen.")
    parts += [_finding(finding) for finding in snapshot.findings]
    if snapshot.consequences:
        parts.append("<h2>Consequences</h2><ul>")
        parts += [f"<li>{_html(finding.summary)}" for finding in snapshot.consequences]
        parts.append("</ul>")
    if snapshot.ranks:
        parts.append("<h2>Ranks</h2><table><tr><th>rank<th>host<th>state<th>phase<th>steps<th>step<th>own time")
        for row in snapshot.ranks[:1024]:
            cells = (row.rank, row.host, row.state, row.phase, row.steps, _ms(row.step_seconds), _ms(row.own_seconds))
            parts.append("<tr>" + "".join(f"<td>{_html('' if cell is None else str(cell))}" for cell in cells))
        parts.append("</table>")
    if snapshot.unknown:
        parts.append("<h2>What cannot be seen</h2><ul class=quiet>")
        parts += [f"<li>{_html(gap.what)}: {_html(gap.reason)}" for gap in snapshot.unknown]
        parts.append("</ul>")
    return "".join(parts)


def _finding(finding: Finding) -> str:
    steps = "".join(
        f"<li>{_html(step.do)}" + (f"<br><code>{_html(step.command)}</code>" if step.command else "")
        for step in finding.remedy
    )
    return (
        f"<h3 class={finding.severity}>{_html(finding.title)}</h3><p>{_html(finding.summary)}"
        f"<p class=quiet>{_html(blamed(finding.culprit))} · {_html(finding.cause)}<ol>{steps}</ol>"
    )


def _html(text: str) -> str:
    return html.escape(printable(text))


def _ms(seconds: float | None) -> str | None:
    return None if seconds is None else f"{seconds * 1000:.0f} ms"
