"""Is the network well? The interfaces that the job uses, and the RDMA ports of its hosts."""

from __future__ import annotations

from aidiag.grafana.panel import UP_OR_DOWN, Panel, Query, Row

JOB_HOSTS = 'and on (instance) aidiag_rank_up{job_id="$job_id"}'
JOB_NICS = f"and on (instance, node, device) (aidiag_net_used_by_job == 1) {JOB_HOSTS}"


def _bytes_rate(way: str) -> str:
    return f"topk(5, max by (node, device) (rate(aidiag_net_{way}_bytes_total[$__rate_interval]) {JOB_NICS}))"


ROW = Row(
    "Network and RDMA",
    (
        Panel(
            "Traffic of the job's interfaces, busiest five",
            "Bytes a second sent and received by the interfaces over which ranks talk. RDMA traffic is not in it.",
            "timeseries",
            "Bps",
            (
                Query(_bytes_rate("transmit"), "{{node}} {{device}}, sent"),
                Query(_bytes_rate("receive"), "{{node}} {{device}}, received"),
            ),
        ),
        Panel(
            "Errors and drops, most five",
            "Packets in error or dropped a second, in and out, on every interface of the job's hosts.",
            "timeseries",
            "suffix: packets/s",
            (
                Query(
                    "topk(5, max by (node, device) ("
                    + " + ".join(
                        f"rate(aidiag_net_{what}_total[$__rate_interval])"
                        for what in ("receive_errors", "transmit_errors", "receive_dropped", "transmit_dropped")
                    )
                    + f" {JOB_HOSTS}))",
                    "{{node}} {{device}}",
                ),
            ),
        ),
        Panel(
            "MTU of the job's interfaces",
            "The largest packet that each interface over which ranks talk will send. All should be the same.",
            "timeseries",
            "suffix: bytes",
            (Query(f"max by (node, device) (aidiag_net_mtu_bytes {JOB_NICS})", "{{node}} {{device}}"),),
        ),
        Panel(
            "Links",
            "Interfaces that the job uses and RDMA ports: up or down.",
            "timeline",
            "none",
            (
                Query(f"min by (node, device) (aidiag_net_up {JOB_NICS})", "{{node}} {{device}}"),
                Query(
                    f"min by (node, device, port) (aidiag_rdma_port_up {JOB_HOSTS})",
                    "{{node}} {{device}} port {{port}}",
                ),
            ),
            states=UP_OR_DOWN,
        ),
        Panel(
            "Speed of the RDMA ports",
            "The rate at which each port runs. A port below its neighbours has lost lanes or fell back.",
            "timeseries",
            "Bps",
            (
                Query(
                    f"max by (node, device, port) (aidiag_rdma_port_speed_bytes_per_second {JOB_HOSTS})",
                    "{{node}} {{device}} port {{port}}",
                ),
            ),
        ),
        Panel(
            "MTU of the RDMA ports",
            "The MTU in force. All ports of a job should agree.",
            "timeseries",
            "suffix: bytes",
            (
                Query(
                    f"max by (node, device, port) (aidiag_rdma_port_mtu_bytes {JOB_HOSTS})",
                    "{{node}} {{device}} port {{port}}",
                ),
            ),
        ),
    ),
)
