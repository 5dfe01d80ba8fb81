"""`aidiag diagnose --pod`, on answers as kubectl gives them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.15 GiB of which 815.06 MiB is free. Including non-PyTorch memory, this process has 78.31 GiB memory in use. Of the allocated memory 77.20 GiB is allocated by PyTorch, and 0.29 GiB is reserved by PyTorch but unallocated."
DESCRIBE = """\
Name:             train-1
Namespace:        ml
Containers:
  trainer:
    State:          Running
    Last State:     Terminated
      Reason:       OOMKilled
      Exit Code:    137
"""
NOT_FOUND = (1, "", 'Error from server (NotFound): pods "train-1" not found\n')


def status(*containers: tuple[str, int, bool]) -> str:
    """What `kubectl get pod -o json` says of containers: name, restarts, whether it ever started."""
    states: list[dict[str, Any]] = [
        {"name": name, "restartCount": restarts, "state": {"running": {}} if started else {"waiting": {"reason": "x"}}}
        for name, restarts, started in containers
    ]
    return json.dumps({"status": {"containerStatuses": states, "initContainerStatuses": None}})


def test_a_pod_is_diagnosed_by_its_name(tools: Callable[..., Any], run: Callable[..., Any]) -> None:
    """The description, the log of each container, and that of its last run; evidence stands in these files."""
    calls = tools(
        kubectl={
            "get pod": (0, status(("trainer", 2, True), ("proxy", 0, True), ("late", 0, False)), ""),
            "describe": (0, DESCRIBE, ""),
            "--container trainer --timestamps --previous": (
                0,
                "2026-12-01T03:00:00.123456789Z step 1\n2026-12-01T03:00:01.5Z [rank1]: " + OOM + "\n",
                "",
            ),
            "--container": (0, "2026-12-01T03:10:00.1Z step 1\n", ""),
        }
    )
    code, out, error = run("diagnose", "--pod", "pod/train-1", "-n", "ml", "--out", "new", "--format", "json")
    assert code == 0
    assert error == "aidiag: what was fetched lies in new\n"
    report = json.loads(out)
    evidence = [one for finding in report["findings"] + report["consequences"] for one in finding["evidence"]]
    for one in evidence:
        assert one["text"] in Path(one["source"]).read_text().splitlines()[one["line"] - 1]
    assert ("new/pod-train-1/trainer.previous.log", 2) in [(one["source"], one["line"]) for one in evidence]
    assert sorted(path.name for path in Path("new/pod-train-1").iterdir()) == [
        "describe.txt", "proxy.log", "trainer.log", "trainer.previous.log",
    ]  # fmt: skip
    assert all("--namespace ml" in call for call in calls())
    assert not [call for call in calls() if "late" in call]


def test_what_kubectl_cannot_say_is_told(tools: Callable[..., Any], run: Callable[..., Any]) -> None:
    """The rest is judged."""
    tools(
        kubectl={
            "get pod": (0, status(("trainer", 1, True)), ""),
            "describe": (1, "", "Error from server (Forbidden): events is forbidden\n"),
            "--previous": (
                1,
                "",
                'Error from server (BadRequest): previous terminated container "trainer" not found\n',
            ),
            "logs": (0, f"[rank0]: {OOM}\n", ""),
        }
    )
    code, out, _ = run("diagnose", "--pod", "train-1", "--out", "new", "--format", "json")
    assert code == 0
    report = json.loads(out)
    assert ["oom_capacity"] == [finding["cause"] for finding in report["findings"]]
    gaps = {gap["what"]: gap["reason"] for gap in report["unknown"]}
    assert "Forbidden" in gaps["describe.txt"]
    assert "previous terminated container" in gaps["trainer.previous.log"]


def test_failures_are_one_clear_line(tools: Callable[..., Any], run: Callable[..., Any]) -> None:
    """No kubectl, no such pod, an answer that is none, a name that is none; and nothing is left behind."""
    code, _, error = run("diagnose", "--pod", "train-1", "--out", "new")
    assert code == 3
    assert "kubectl is not installed here; run it where kubectl reaches the cluster" in error
    assert not Path("new").exists()
    tools(kubectl={"get pod": NOT_FOUND})
    code, _, error = run("diagnose", "--pod", "train-1", "--out", "new")
    assert (code, len(error.splitlines())) == (3, 1)
    assert "not found; kubectl get pods lists them; -n names another namespace" in error
    for answer in ("", "[]", '{"status": {"containerStatuses": [{}]}}', '{"status": 3}'):
        tools(kubectl={"get pod": (0, answer, "")})
        code, _, error = run("diagnose", "--pod", "train-1", "--out", "new")
        assert code == 3
        assert "is not what it should be" in error
        assert not Path("new").exists()
    for name in ("--help", "a b", "Train", "..", ""):
        assert run("diagnose", f"--pod={name}", "--out", "new")[0] == 3
    assert run("diagnose", "--pod", "train-1", "-n", "--all", "--out", "new")[0] == 3
    assert not Path("new").exists()


def test_a_container_cannot_choose_where_its_log_is_written(tools: Callable[..., Any], run: Callable[..., Any]) -> None:
    """Names are those that Kubernetes allows; others are passed over."""
    tools(
        kubectl={
            "get pod": (0, status(("../../evil", 0, True)), ""),
            "describe": (0, "x\n", ""),
            "logs": (0, "y\n", ""),
        }
    )
    assert run("diagnose", "--pod", "train-1", "--out", "new")[0] == 0
    assert [path.name for path in Path("new/pod-train-1").iterdir()] == ["describe.txt"]
