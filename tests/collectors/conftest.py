"""Recorded nodes for tests, and what collectors see on them."""

from __future__ import annotations

import json
import runpy
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from aidiag.collectors.collector import Collector, Context
from aidiag.collectors.node import Node
from aidiag.collectors.observation import Absent, Observation, Sample
from aidiag.collectors.recorded import RecordedNode

Seen = Mapping[tuple[str, ...], Sample | Absent]

lay = runpy.run_path(str(Path(__file__).resolve().parents[1] / "fixtures" / "nodes" / "lay.py"))["lay"]


@pytest.fixture(scope="session")
def recorded_trees(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """The committed nodes, each laid in a folder that is not to be changed."""
    top = tmp_path_factory.mktemp("nodes")
    return {name: lay(name, top / name) for name in ("gpu-node", "pod")}


@pytest.fixture
def gpu_node(recorded_trees: Mapping[str, Path]) -> RecordedNode:
    """A node of a Slurm job (cgroup v1) with an InfiniBand port, a RoCE port and a virtual function."""
    return RecordedNode(recorded_trees["gpu-node"])


@pytest.fixture
def pod_node(recorded_trees: Mapping[str, Path]) -> RecordedNode:
    """A training pod (cgroup v2) without RDMA and without a GPU driver."""
    return RecordedNode(recorded_trees["pod"])


@pytest.fixture
def change_node(recorded_trees: Mapping[str, Path], tmp_path: Path) -> Callable[..., RecordedNode]:
    """A maker of changed copies: `files` are other texts by path (None deletes a file, a folder or a link), `node` are
    other entries of node.json (None deletes one). The copy is in `tmp_path / "copies" / base`.
    """

    def change(
        base: str, *, files: Mapping[str, str | None] | None = None, node: Mapping[str, Any] | None = None
    ) -> RecordedNode:
        tree = tmp_path / "copies" / base
        shutil.copytree(recorded_trees[base], tree, symlinks=True)
        for path, text in (files or {}).items():
            place = tree / path
            if text is not None:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_text(text)
            elif place.is_dir() and not place.is_symlink():
                shutil.rmtree(place)
            else:
                place.unlink()
        answers = {**json.loads((tree / "node.json").read_text()), **(node or {})}
        gone = {key for key, value in (node or {}).items() if value is None}
        (tree / "node.json").write_text(json.dumps({key: answers[key] for key in answers if key not in gone}))
        return RecordedNode(tree)

    return change


@pytest.fixture
def see() -> Callable[[type[Collector], Node], Seen]:
    """A collector's observations of a node by (signal, name of the subject, label values in their order).

    Checks that each signal and its labels are declared, and that nothing is told twice.
    """

    def collect(kind: type[Collector], node: Node) -> Seen:
        seen: dict[tuple[str, ...], Sample | Absent] = {}
        declared = {signal.name: signal for signal in kind.signals}
        for one in list[Observation](kind(Context(node)).collect()):
            assert isinstance(one, Sample | Absent)
            signal = declared[one.signal]
            if isinstance(one, Sample):
                assert signal.scope == one.subject.kind
                assert set(signal.labels) == {name for name, _ in one.labels}
                assert isinstance(one.value, str) == (signal.type == "text")
            values = dict(one.labels)
            key = (one.signal, one.subject.name, *(values[name] for name in signal.labels if name in values))
            assert key not in seen
            seen[key] = one
        return seen

    return collect
