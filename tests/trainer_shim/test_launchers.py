"""The place of a process in its job, from every launcher's environment."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aidiag.trainer_shim.launchers import PlaceInJob, place, slurm_step

TORCH = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4", "GROUP_RANK": "1"}
SLURM = {
    "SLURM_JOB_ID": "42",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "5",
    "SLURM_NTASKS": "7",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_STEP_TASKS_PER_NODE": "4,3",
}
CLUSTER = {"chief": ["a:1"], "worker": ["a:2", "b:1", "b:2"], "ps": ["c:1"]}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, PlaceInJob("none", 0, 1, 0, 1, 0)),
        ({**TORCH, "TORCHELASTIC_RUN_ID": "none"}, PlaceInJob("torchrun", 5, 8, 1, 4, 1)),
        (TORCH, PlaceInJob("env", 5, 8, 1, 4, 1)),
        ({"RANK": "0", "WORLD_SIZE": "2"}, PlaceInJob("env", 0, 2)),
        (SLURM, PlaceInJob("slurm", 5, 7, 1, 3, 1)),
        ({**SLURM, **TORCH}, PlaceInJob("env", 5, 8, 1, 4, 1)),
        (
            {
                "OMPI_COMM_WORLD_RANK": "2",
                "OMPI_COMM_WORLD_SIZE": "4",
                "OMPI_COMM_WORLD_LOCAL_RANK": "0",
                "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
            },
            PlaceInJob("mpi", 2, 4, 0, 2),
        ),
        ({"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1"}, PlaceInJob("mpi", 1, 2, 1)),
        ({"MV2_COMM_WORLD_RANK": "1", "MV2_COMM_WORLD_SIZE": "2"}, PlaceInJob("mpi", 1, 2)),
        (
            {"HOROVOD_RANK": "3", "HOROVOD_SIZE": "4", "HOROVOD_LOCAL_RANK": "1", "HOROVOD_CROSS_RANK": "1"},
            PlaceInJob("horovod", 3, 4, 1, None, 1),
        ),
        (
            {"TF_CONFIG": json.dumps({"cluster": CLUSTER, "task": {"type": "worker", "index": 2}})},
            PlaceInJob("tf_config", 3, 5, 1, 2, 1),
        ),
        (
            {"TF_CONFIG": json.dumps({"cluster": CLUSTER, "task": {"type": "chief", "index": "0"}})},
            PlaceInJob("tf_config", 0, 5, 0, 2, 0),
        ),
        ({"JOB_COMPLETION_INDEX": "3"}, PlaceInJob("kubernetes", 3, 4, 0, 1, 3)),
        ({"JOB_COMPLETION_INDEX": "3", "WORLD_SIZE": "8"}, PlaceInJob("kubernetes", 3, 8, 0, 1, 3)),
    ],
    ids=lambda value: value.launcher if isinstance(value, PlaceInJob) else "",
)
def test_places(environ: dict[str, str], expected: PlaceInJob) -> None:
    """Each launcher tells rank and world size, and what it knows of the host."""
    assert expected == place(environ)


@pytest.mark.parametrize(
    ("step", "expected"), [(None, None), ("3", 3), (str(0xFFFFFFFB), None), (str(0xFFFFFFFA), None), ("x", None)]
)
def test_a_batch_script_is_no_task(step: str | None, expected: int | None) -> None:
    """A batch script has the variables of its allocation, and is one process all the same."""
    environ = {**SLURM}
    del environ["SLURM_STEP_ID"]
    if step is not None:
        environ["SLURM_STEP_ID"] = step

    assert expected == slurm_step(environ)
    assert ("slurm" if expected is not None else "none") == place(environ).launcher


@pytest.mark.parametrize(("notation", "expected"), [("4", None), ("4(x2)", 4), ("2,4", 4), ("x", None), ("", None)])
def test_slurm_tasks_per_node(notation: str, expected: int | None) -> None:
    """Slurm's short notation for the tasks of each node is understood, and nothing is guessed."""
    assert expected == place({**SLURM, "SLURM_STEP_TASKS_PER_NODE": notation}).local_world_size


@pytest.mark.parametrize(
    "change",
    [{"RANK": "8"}, {"RANK": "-1"}, {"RANK": "a"}, {"RANK": ""}, {"WORLD_SIZE": "9999999"}, {"RANK": "٣"}],
    ids=str,
)
def test_a_rank_that_cannot_be_is_none(change: dict[str, str]) -> None:
    """A rank outside of its world is not a place; what contradicts the rest is left out."""
    assert "none" == place({**TORCH, **change}).launcher
    assert place({**TORCH, "LOCAL_RANK": "4"}).local_rank is None
    assert place({**TORCH, "LOCAL_WORLD_SIZE": "9"}).local_world_size is None


@given(
    st.dictionaries(
        st.sampled_from([*TORCH, *SLURM, "TF_CONFIG", "JOB_COMPLETION_INDEX", "PMI_RANK", "PMI_SIZE"]),
        st.one_of(st.text(max_size=20), st.integers(-3, 20).map(str), st.just('{"cluster": 3, "task": []}')),
    )
)
def test_any_environment_gives_a_place(environ: dict[str, str]) -> None:
    """Whatever stands in the environment, the place is one that can be."""
    found = place(environ)

    assert 0 <= found.rank < found.world_size
    assert found.local_rank is None or found.local_rank < found.world_size
