"""The metric table against the exporter that it describes."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric as Family

from aidiag.collectors import registry
from aidiag.collectors.signal import Registry, Signal
from aidiag.diagnose.sidecar.exporter import Exporter
from aidiag.grafana.metrics import metric_table
from tests.grafana import fleet


class Constant:
    """A prometheus_client collector of families that are there already."""

    def __init__(self, families: list[Family]) -> None:
        self.families = families

    def collect(self) -> list[Family]:
        """The families."""
        return self.families


def sample_name(family: Family) -> str:
    """The name under which Prometheus stores the family's series."""
    return f"{family.name}_total" if family.type == "counter" else family.name


def test_table_is_what_the_exporter_renders() -> None:
    """Each family that the exporter renders is in the table with its type, help and labels, but for the empty ones."""
    table = metric_table(registry())
    families = list(fleet.metrics("node-b", fleet.SECONDS))

    assert len(families) > 40
    for family in families:
        metric = table[sample_name(family)]
        assert (metric.type, metric.help) == (family.type, family.documentation)
        for sample in family.samples:
            assert list(metric.labels) == list(sample.labels), sample.name


def test_every_signal_is_in_the_table() -> None:
    """The exporter's description of itself, which covers every signal, is in the table by the same names."""
    described = {sample_name(family) for family in Exporter(registry(), lambda: None).describe()}

    assert len(described) == len(registry().signals)
    assert described <= metric_table(registry()).keys()


def test_text_signal_is_an_info_metric() -> None:
    """A text signal is an info metric with the label `value`, and the table says so."""
    signal = Signal("port_state", "text", "", "port", "State of a port")
    table = metric_table(Registry.of([signal]))

    assert ("node", "device", "port", "value") == table["aidiag_port_state_info"].labels


def test_promtool_has_no_complaint(require: Callable[[str], str]) -> None:
    """`promtool check metrics` accepts names, types and helps of a whole answer of the exporter."""
    collectors = CollectorRegistry()
    collectors.register(Constant(list(fleet.metrics("node-b", fleet.SECONDS))))
    done = subprocess.run(
        [require("promtool"), "check", "metrics"], input=generate_latest(collectors), capture_output=True, check=False
    )

    assert (0, b"") == (done.returncode, done.stdout + done.stderr)
