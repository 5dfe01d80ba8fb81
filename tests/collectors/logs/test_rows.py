"""Lists that kubectl, Open MPI and JAX print over several lines."""

from __future__ import annotations

import io

from aidiag.collectors.logs import read_log
from aidiag.collectors.observation import Event


def events(text: str, kind: str) -> list[Event]:
    """The events of one kind in a text."""
    return [event for event in read_log(io.BytesIO(text.encode()), reference=1.8e9) if event.kind == kind]


def test_each_pod_of_a_listing_is_told_with_its_state() -> None:
    """A row a pod, also with a namespace before it; what follows the list is no row."""
    text = """$ kubectl get pods -A
NAMESPACE   NAME       READY   STATUS              RESTARTS      AGE
ml          master-0   1/1     Running             1 (4m ago)    40s
ml          worker-0   0/1     ContainerCreating   0             40s
Jobs done   0/1 x
"""
    assert [(one.fields["pod"], one.fields["state"]) for one in events(text, "pod_state")] == [
        ("master-0", "Running"),
        ("worker-0", "ContainerCreating"),
    ]


def test_a_described_pod_tells_how_its_pod_container_ended() -> None:
    """The reason, the code and who killed it; what the next command prints does not count."""
    text = """$ kubectl describe pod worker-1
    Last State:     Terminated
      Reason:       Error
      Exit Code:    137
Events:
  Normal   Killing    40s                kubelet  Container failed liveness probe, will be restarted
$ kubectl describe pod worker-2
    State:          Running
"""
    [ended] = events(text, "pod_container_ended")

    assert (ended.fields["host"], ended.fields["exit_code"], ended.fields["reason"]) == ("worker-1", 137, "Error")
    assert "liveness" in str(ended.fields["killing"])


def test_a_container_that_ended_well_is_not_told() -> None:
    """The twin: exit code 0."""
    text = "$ kubectl describe pod worker-1\n      Reason:       Completed\n      Exit Code:    0\n"

    assert events(text, "pod_container_ended") == []


def test_open_mpi_names_the_process_and_its_code() -> None:
    """The name stands on one line and the code on the next; a name alone says nothing."""
    text = "  Process name: [[50321,1],3]\n  Exit code:    1\n"

    assert [(one.fields["rank"], one.fields["exit_code"]) for one in events(text, "worker_failed")] == [(3, 1)]
    assert events("  Process name: [[50321,1],3]\nsomething else\n", "worker_failed") == []


def test_tasks_that_did_not_come_are_named() -> None:
    """JAX names them on lines of their own."""
    text = (
        "DEADLINE_EXCEEDED: Barrier timed out. Barrier_id: PjRT_Client_Connect. Timed out task names:\n"
        "/job:jax_worker/replica:0/task:3\n/job:jax_worker/replica:0/task:5\n\nmore\n"
    )
    assert [one.fields["ranks"] for one in events(text, "ranks_absent")] == ["3, 5"]
