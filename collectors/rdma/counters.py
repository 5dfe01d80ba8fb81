"""The counters of RDMA ports: which file holds which, and how wide it is.

Sources: InfiniBand Architecture Specification (PortCounters) and rdma-core `libibmad/fields.c` for the classic ones,
the kernel's Documentation/ABI/stable/sysfs-class-infiniband for files and units, drivers/infiniband/hw/mlx5/counters.c
and drivers/infiniband/hw/efa/efa_verbs.c for `hw_counters`.
"""

from __future__ import annotations

from aidiag.collectors.counter_files import CounterFile
from aidiag.collectors.signal import Signal, Unit

WORD_BYTES = 4
"""`port_xmit_data` and `port_rcv_data` count words of 4 octets."""

_CLASSIC: tuple[tuple[str, str, int | None, str], ...] = (
    ("port_xmit_packets", "transmit_packets", None, "Packets sent"),
    ("port_rcv_packets", "receive_packets", None, "Packets received"),
    ("port_xmit_wait", "transmit_wait_ticks", 32, "Ticks (of the device) with data to send and no credits for it"),
    ("symbol_error", "symbol_errors", 16, "Minor physical errors: cable, optics or seating"),
    ("link_error_recovery", "link_error_recoveries", 8, "Times that the link retrained by itself"),
    ("link_downed", "link_downed", 8, "Times that the link went down, also when the other end restarted"),
    ("port_rcv_errors", "receive_errors", 16, "Packets received with bad checksum, length or form"),
    (
        "port_rcv_remote_physical_errors",
        "receive_remote_physical_errors",
        16,
        "Packets that the other side of a switch saw corrupted",
    ),
    (
        "port_rcv_switch_relay_errors",
        "receive_switch_relay_errors",
        16,
        "Packets that could not be forwarded, also normal multicast drops",
    ),
    ("port_xmit_discards", "transmit_discards", 16, "Packets dropped on send: congestion or the peer is down"),
    ("port_xmit_constraint_errors", "transmit_constraint_errors", 8, "Packets not sent because of partition or filter"),
    (
        "port_rcv_constraint_errors",
        "receive_constraint_errors",
        8,
        "Packets dropped on receive because of partition or filter",
    ),
    (
        "local_link_integrity_errors",
        "local_link_integrity_errors",
        4,
        "Times that physical errors passed the threshold",
    ),
    ("excessive_buffer_overrun_errors", "excessive_buffer_overruns", 4, "Times that buffers overran again and again"),
    ("VL15_dropped", "vl15_dropped", 16, "Management packets dropped"),
)
"""File, signal, width in bits (these stop at their end and do not wrap; None: 64 bits), meaning."""

_HARDWARE: tuple[tuple[str, str, str], ...] = (
    ("out_of_sequence", "out_of_sequence", "Packets received out of order: loss, or adaptive routing"),
    ("packet_seq_err", "packet_sequence_errors", "Sequence-error NAKs received: loss on the path"),
    ("duplicate_request", "duplicate_requests", "Requests received twice"),
    ("implied_nak_seq_err", "implied_nak_sequence_errors", "Losses that a later response revealed"),
    ("local_ack_timeout_err", "local_ack_timeouts", "Transport timers expired: peer dead, path lossy or card stalled"),
    ("req_transport_retries_exceeded", "transport_retries_exceeded", "Connections that gave up retrying"),
    ("rnr_nak_retry_err", "receiver_not_ready_retries_exceeded", "Connections that gave up waiting for the receiver"),
    ("out_of_buffer", "out_of_buffer", "Packets received without a posted buffer"),
    ("req_cqe_error", "request_completion_errors", "Requests completed with an error"),
    ("resp_cqe_error", "response_completion_errors", "Responses completed with an error"),
    ("req_cqe_flush_error", "request_flush_errors", "Requests flushed after an error, normal at the end of a job"),
    ("resp_cqe_flush_error", "response_flush_errors", "Responses flushed after an error, normal at the end of a job"),
    ("req_remote_access_errors", "request_remote_access_errors", "Requests that the peer refused"),
    ("resp_remote_access_errors", "response_remote_access_errors", "Requests of peers that were refused"),
    ("req_remote_invalid_request", "request_remote_invalid", "Requests that the peer called invalid"),
    ("resp_local_length_error", "response_local_length_errors", "Requests of peers that were longer than the buffer"),
    ("rx_icrc_encapsulated", "receive_icrc_errors", "RoCE packets received corrupted"),
    ("np_ecn_marked_roce_packets", "receive_ecn_marked_packets", "RoCE packets received with a congestion mark"),
    ("np_cnp_sent", "congestion_notifications_sent", "Congestion notifications sent back to senders"),
    ("rp_cnp_handled", "congestion_notifications_handled", "Congestion notifications that slowed this port down"),
    ("rp_cnp_ignored", "congestion_notifications_ignored", "Congestion notifications that this port does not heed"),
    ("roce_adp_retrans", "adaptive_retransmissions", "Adaptive retransmissions"),
    ("roce_adp_retrans_to", "adaptive_retransmission_timeouts", "Adaptive retransmissions that ended in a time-out"),
    ("roce_slow_restart", "slow_restarts", "Slow restarts after loss"),
    ("rx_drops", "receive_drops", "Packets dropped on receive (EFA)"),
    ("retrans_pkts", "retransmitted_packets", "Packets sent again (EFA)"),
    ("retrans_timeout_events", "retransmission_timeouts", "Retransmissions by time-out (EFA)"),
    ("impaired_remote_conn_events", "impaired_connections", "Connections with bad throughput (EFA)"),
    ("unresponsive_remote_events", "unresponsive_peers", "Times that a peer did not answer (EFA)"),
)
"""File, signal, meaning. Drivers differ in which of these they have; all are 64 bits wide."""


def _name(what: str) -> str:
    return f"rdma_port_{what}_total"


def _signal(what: str, help_text: str, width_bits: int | None = None, unit: Unit = "count") -> Signal:
    return Signal(_name(what), "counter", unit, "port", help_text, width_bits=width_bits)


SIGNALS: tuple[Signal, ...] = (
    _signal("transmit_bytes", "Bytes sent", unit="bytes"),
    _signal("receive_bytes", "Bytes received", unit="bytes"),
    *(_signal(what, meaning, width) for _, what, width, meaning in _CLASSIC),
    *(_signal(what, meaning) for _, what, meaning in _HARDWARE),
)

CLASSIC_FILES: tuple[CounterFile, ...] = (
    CounterFile("port_xmit_data", _name("transmit_bytes"), WORD_BYTES),
    CounterFile("port_rcv_data", _name("receive_bytes"), WORD_BYTES),
    *(CounterFile(file, _name(what)) for file, what, _, _ in _CLASSIC),
)
"""In `ports/N/counters`."""

HARDWARE_FILES: tuple[CounterFile, ...] = tuple(CounterFile(file, _name(what)) for file, what, _ in _HARDWARE)
"""In `ports/N/hw_counters`."""

EFA_FILES: tuple[CounterFile, ...] = (
    CounterFile("tx_bytes", _name("transmit_bytes")),
    CounterFile("rx_bytes", _name("receive_bytes")),
    CounterFile("tx_pkts", _name("transmit_packets")),
    CounterFile("rx_pkts", _name("receive_packets")),
)
"""In `ports/N/hw_counters` of EFA, which has no `counters`: these are bytes, not words."""
