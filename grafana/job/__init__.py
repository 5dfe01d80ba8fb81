"""The job dashboard: its rows, from the overview to aidiag itself."""

from __future__ import annotations

from aidiag.grafana.job import host, memory, network, observer, overview, slow
from aidiag.grafana.panel import Row

UID = "aidiag-job"
TITLE = "aidiag: one training job"

ROWS: tuple[Row, ...] = (overview.ROW, slow.ROW, memory.ROW, host.ROW, network.ROW, observer.ROW)
