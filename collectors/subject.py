"""Subjects: the things that a fact or a finding can be about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

SubjectKind = Literal["job", "host", "rank", "gpu", "port", "nic", "link"]

SUBJECT_KINDS: tuple[SubjectKind, ...] = get_args(SubjectKind)


@dataclass(frozen=True, slots=True)
class Subject:
    """One job, host, rank, GPU, RDMA port, network interface or link.

    `name` is what people call it: a job id, a host name, a rank number in decimal, `gpu3` (NVML index),
    `mlx5_0:1` (RDMA device and port), `eth0`, or `node-a>node-b` for a link. `host` and `job` are empty where the
    thing belongs to none or where they are not known.
    """

    kind: SubjectKind
    name: str
    host: str = ""
    job: str = ""

    def __str__(self) -> str:
        place = f" on {self.host}" if self.host and self.kind != "host" else ""
        return f"{self.name if self.kind in ('gpu', 'port', 'nic') else f'{self.kind} {self.name}'}{place}"

    @property
    def rank(self) -> int | None:
        """The rank number of a rank subject, None for every other kind."""
        return int(self.name) if self.kind == "rank" and self.name.isdecimal() else None


def job(job_id: str) -> Subject:
    """The subject of a whole job."""
    return Subject("job", job_id, job=job_id)


def host(name: str) -> Subject:
    """The subject of a host."""
    return Subject("host", name, host=name)


def rank(number: int, *, host: str, job: str) -> Subject:
    """The subject of one rank of a job. `host` is where it runs, empty while nobody knows."""
    return Subject("rank", str(number), host=host, job=job)


def gpu(index: int, *, host: str) -> Subject:
    """The subject of a GPU by its NVML index on a host."""
    return Subject("gpu", f"gpu{index}", host=host)


def port(device: str, number: int, *, host: str) -> Subject:
    """The subject of an RDMA port, such as mlx5_0 port 1."""
    return Subject("port", f"{device}:{number}", host=host)


def nic(interface: str, *, host: str) -> Subject:
    """The subject of a network interface."""
    return Subject("nic", interface, host=host)
