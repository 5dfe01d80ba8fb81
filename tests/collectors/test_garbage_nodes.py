"""Nodes full of garbage: whatever the files hold, the collectors of host, network and RDMA end well or say why not."""

from __future__ import annotations

import json
import math
import random
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aidiag.collectors.collector import Context
from aidiag.collectors.host import HostCollector
from aidiag.collectors.network import NetworkCollector
from aidiag.collectors.observation import Absent, Sample
from aidiag.collectors.outcome import collect_once
from aidiag.collectors.rdma import RdmaCollector
from aidiag.collectors.recorded import RecordedNode

COLLECTORS = (HostCollector, NetworkCollector, RdmaCollector)
CONTENTS = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(
        [b"", b"\n", b"-1\n", b"N/A (no PMA)\n", b"\xff\xfe\n", b"9" * 30, b"0x\n", b"4:\n", b"some total=\n"]
    ),
)


@pytest.fixture
def tree(recorded_trees: Mapping[str, Path], tmp_path: Path) -> Path:
    """A copy of a node, changed and mended again by each example."""
    return Path(shutil.copytree(recorded_trees["gpu-node"], tmp_path / "node", symlinks=True))


@contextmanager
def changed(contents: Mapping[Path, bytes]) -> Iterator[None]:
    """Files with other contents for a while."""
    before = {path: path.read_bytes() for path in contents}
    for path, data in contents.items():
        path.write_bytes(data)
    try:
        yield
    finally:
        for path, data in before.items():
            path.write_bytes(data)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(contents=st.lists(CONTENTS, min_size=3, max_size=8), share=st.floats(0.1, 1.0), seed=st.integers(0, 1000))
def test_files_of_garbage(contents: list[bytes], share: float, seed: int, tree: Path) -> None:
    """A share of all files holds other bytes: no collector fails, no value is odd, and each gap has its reason."""
    chance = random.Random(seed)
    files = [path for path in sorted(tree.rglob("*")) if path.is_file() and not path.is_symlink()]
    bad = {path: chance.choice(contents) for path in files if path.suffix != ".json" and chance.random() < share}
    with changed(bad):
        context = Context(RecordedNode(tree))
        outcomes = [collect_once(kind(context), context.clock) for kind in COLLECTORS]

    for outcome in outcomes:
        assert ("ok", "") == (outcome.state, outcome.reason)
        for one in outcome.observations:
            if isinstance(one, Sample) and isinstance(one.value, float):
                assert one.value >= 0
                assert not math.isnan(one.value)
            elif isinstance(one, Absent):
                assert one.reason


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    key=st.sampled_from(
        ["addresses", "routes", "environ", "statvfs", "limits", "sched_getaffinity", "sysconf", "uname"]
    ),
    value=st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=5,
    ),
)
def test_answers_of_garbage(key: str, value: object, tree: Path) -> None:
    """An answer of the wrong shape costs what depends on it, and nothing else."""
    answers = json.loads((tree / "node.json").read_text())
    with changed({tree / "node.json": json.dumps({**answers, key: value}).encode()}):
        context = Context(RecordedNode(tree))
        outcomes = [collect_once(kind(context), context.clock) for kind in COLLECTORS]

    assert [("ok", "")] * 3 == [(outcome.state, outcome.reason) for outcome in outcomes]
