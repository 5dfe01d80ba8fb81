"""deploy/kubernetes/pod.yaml against the schemas of Kubernetes, and what aidiag needs of it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from aidiag.diagnose.cli.daemon import daemon_command
from aidiag.diagnose.sidecar.routes import routes
from aidiag.trainer_shim.export import export

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = ("1.29", "1.30", "1.33", "1.35")


@pytest.fixture
def pod() -> dict[str, Any]:
    """The pod as it is committed."""
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "kubernetes" / "pod.yaml").read_text())
    return loaded


def container(pod: dict[str, Any], name: str) -> dict[str, Any]:
    """One container of the pod by its name."""
    (found,) = (c for c in (*pod["spec"]["initContainers"], *pod["spec"]["containers"]) if c["name"] == name)
    return dict(found)


def variables(part: dict[str, Any]) -> dict[str, Any]:
    """The environment of a container, references in full."""
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in part["env"]}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_pod_is_valid(pod: dict[str, Any], version: str) -> None:
    """The schema of each Kubernetes with native sidecars accepts the pod, unknown keys forbidden."""
    kubernetes_validate.validate(pod, version, strict=True)


def test_a_misspelt_field_is_refused(pod: dict[str, Any]) -> None:
    """The check above sees a field that Kubernetes does not know."""
    broken = copy.deepcopy(pod)
    broken["spec"]["shareProcessNamespaces"] = broken["spec"].pop("shareProcessNamespace")

    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, VERSIONS[-1], strict=True)


def test_sidecar_outlives_and_sees_the_trainer(pod: dict[str, Any]) -> None:
    """aidiag is a native sidecar, shares the trainer's processes, and never holds its start back."""
    sidecar = container(pod, "aidiag")

    assert "Always" == sidecar["restartPolicy"]
    assert pod["spec"]["shareProcessNamespace"] is True
    assert "startupProbe" not in sidecar


def test_both_find_the_same_records(pod: dict[str, Any]) -> None:
    """Trainer and sidecar share one folder of records on a tmpfs, as one user, and name the node alike."""
    sidecar, trainer = container(pod, "aidiag"), container(pod, "trainer")
    folder = variables(trainer)["AIDIAG_DIR"]

    assert folder == sidecar["args"][sidecar["args"].index("--records") + 1]
    assert f"mkdir -p -m 0700 {folder} " in container(pod, "aidiag-shim")["command"][-1]
    mounts = [{m["mountPath"]: m["name"] for m in part["volumeMounts"]} for part in (sidecar, trainer)]
    assert "aidiag" == mounts[0]["/run/aidiag"] == mounts[1]["/run/aidiag"]
    assert folder.startswith("/run/aidiag/")
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    assert "Memory" == volumes["aidiag"]["emptyDir"]["medium"]
    assert {"fieldRef": {"fieldPath": "spec.nodeName"}} == variables(sidecar)["NODE_NAME"]
    assert variables(sidecar)["NODE_NAME"] == variables(trainer)["NODE_NAME"]
    assert not any("runAsUser" in part.get("securityContext", {}) for part in (sidecar, trainer))


def test_sidecars_arguments_are_understood(pod: dict[str, Any]) -> None:
    """The sidecar's arguments are those of a command that there is."""
    name, *arguments = container(pod, "aidiag")["args"]

    assert "daemon" == name
    daemon_command.make_context(name, arguments)


def test_trainer_finds_the_shim(pod: dict[str, Any], tmp_path: Path) -> None:
    """PYTHONPATH of the trainer is where `aidiag shim export` puts the injected module."""
    folder = container(pod, "aidiag-shim")["command"][-1].split()[-1]
    injected = export(tmp_path).relative_to(tmp_path)

    assert f"{folder}/{injected}" == variables(container(pod, "trainer"))["PYTHONPATH"]
    assert (tmp_path / injected / "sitecustomize.py").is_file()


@pytest.mark.parametrize("name", ["aidiag", "aidiag-shim"])
def test_containers_of_aidiag_have_no_rights(pod: dict[str, Any], name: str) -> None:
    """They run as an ordinary user without capabilities, on a root file system that they cannot write."""
    rights = container(pod, name)["securityContext"]

    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert (False, True, ["ALL"]) == (
        rights["allowPrivilegeEscalation"],
        rights["readOnlyRootFilesystem"],
        rights["capabilities"]["drop"],
    )
    assert {"requests", "limits"} == container(pod, name)["resources"].keys()


def test_probes_ask_pages_that_are_served(pod: dict[str, Any]) -> None:
    """The probes' paths are routes of the sidecar, on the port that it says it has."""
    sidecar = container(pod, "aidiag")
    probes = [sidecar[kind]["httpGet"] for kind in ("livenessProbe", "readinessProbe")]

    assert ["/-/healthy", "/-/ready"] == [probe["path"] for probe in probes]
    assert {probe["path"] for probe in probes} <= set(routes(lambda: None, None, lambda: True))  # type: ignore[arg-type]
    assert [{"name": probes[0]["port"], "containerPort": 9877}] == sidecar["ports"]
