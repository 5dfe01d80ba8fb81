"""What Kubernetes knows of a pod: its description, and the logs of its containers and of those that ran before them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aidiag.diagnose.fetch.fetched import Fetched, FetchError, made
from aidiag.diagnose.fetch.tool import ToolError, run
from aidiag.diagnose.report.model import Unknown

NAME = re.compile(r"(?:pods?/)?([a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?)")
NAMESPACE = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")

LOG_DEADLINE_SECONDS = 120.0
LOG_LIMIT_BYTES = 2 << 30
CONTAINERS_CAP = 32


def fetch_pod(pod: str, namespace: str, out: Path) -> Fetched:
    """Ask Kubernetes for `pod` (in the namespace of the current context where `namespace` is empty); its answers become
    files in a folder in `out`. Raises FetchError when there is no kubectl, no cluster, or no such pod.
    """
    name = NAME.fullmatch(pod)
    if not name:
        raise FetchError(f"{pod!r} is no name of a pod", "kubectl get pods lists them")
    if namespace and not NAMESPACE.fullmatch(namespace):
        raise FetchError(f"{namespace!r} is no name of a namespace", "kubectl get namespaces lists them")
    folder = made(out / f"pod-{name[1]}")
    kubectl = ["kubectl", *(["--namespace", namespace] if namespace else [])]
    state = folder / ".state.json"
    try:
        run([*kubectl, "get", "pod", name[1], "--output", "json"], state, echo=False)
        containers = list(_containers(json.loads(state.read_bytes())))
    except ToolError as error:
        raise FetchError(f"pod {name[1]}: {error}", _remedy(error)) from None
    except (ValueError, AttributeError, TypeError, KeyError):
        raise FetchError(f"pod {name[1]}: kubectl's answer is not what it should be") from None
    finally:
        state.unlink(missing_ok=True)
    found = Fetched()
    _ask([*kubectl, "describe", "pod", name[1]], folder / "describe.txt", found)
    for container, started, restarted in containers[:CONTAINERS_CAP]:
        logs = [*kubectl, "logs", name[1], "--container", container, "--timestamps"]
        if restarted:
            _ask([*logs, "--previous"], folder / f"{container}.previous.log", found)
        if started:
            _ask(logs, folder / f"{container}.log", found)
    if len(containers) > CONTAINERS_CAP:
        found.gaps.append(
            Unknown(f"pod {name[1]}", f"{len(containers) - CONTAINERS_CAP} of its containers are left out")
        )
    return found


def _containers(pod: dict[str, Any]) -> Iterator[tuple[str, bool, bool]]:
    """Each container, whether it ever started, and whether it ran before; in the order in which they start."""
    status = pod.get("status", {})
    for group in ("initContainerStatuses", "containerStatuses"):
        for one in status.get(group) or []:
            states = [one.get("state") or {}, one.get("lastState") or {}]
            started = any("running" in state or "terminated" in state for state in states)
            if NAMESPACE.fullmatch(name := str(one["name"])):  # what it must be, as it names a file
                yield name, started, int(one.get("restartCount") or 0) > 0


def _ask(command: list[str], file: Path, found: Fetched) -> None:
    logs = "logs" in command
    try:
        cut = (
            run(command, file, deadline_seconds=LOG_DEADLINE_SECONDS, limit_bytes=LOG_LIMIT_BYTES, echo=False)
            if logs
            else run(command, file)
        )
    except ToolError as error:
        cut = str(error)
    if cut:
        found.gaps.append(Unknown(file.name, cut, "kubectl keeps the last run of a container only" if logs else ""))


def _remedy(error: ToolError) -> str:
    if error.missing:
        return "run it where kubectl reaches the cluster, or give the pod's logs as files"
    if "NotFound" in str(error) or "not found" in str(error):
        return "kubectl get pods lists them; -n names another namespace"
    return "kubectl get pods must work here"
