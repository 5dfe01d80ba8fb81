"""Job ids and identities."""

from __future__ import annotations

import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aidiag.trainer_shim import owner
from aidiag.trainer_shim.identity import identity, job_id, process_identity


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"AIDIAG_JOB_ID": "mine", "SLURM_JOB_ID": "7"}, "mine"),
        ({"SLURM_JOB_ID": "7"}, "slurm-7"),
        ({"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "2", "TORCHELASTIC_RUN_ID": "r"}, "slurm-7.2"),
        ({"SLURM_JOB_ID": "7", "SLURM_STEP_ID": str(0xFFFFFFFB)}, "slurm-7"),
        ({"TORCHELASTIC_RUN_ID": "run-1", "KUBERNETES_SERVICE_HOST": "x"}, "run-1"),
        ({"KUBERNETES_SERVICE_HOST": "x", "HOSTNAME": "bert-worker-3"}, "bert"),
        ({"KUBERNETES_SERVICE_HOST": "x", "HOSTNAME": "bert-master-0", "POD_NAMESPACE": "ml"}, "ml.bert"),
        ({"KUBERNETES_SERVICE_HOST": "x", "HOSTNAME": "bert-3", "JOB_COMPLETION_INDEX": "3"}, "bert"),
        ({"KUBERNETES_SERVICE_HOST": "x", "JOBSET_NAME": "set", "HOSTNAME": "set-workers-0-1"}, "set"),
    ],
    ids=str,
)
def test_job_ids(environ: dict[str, str], expected: str) -> None:
    """The first that knows a name gives it: the user, Slurm with its step, torchrun, Kubernetes."""
    assert expected == job_id(environ, "/w")


def test_a_made_id_is_the_same_for_all_ranks() -> None:
    """Where nobody names a job, all processes with one master, user and folder agree, and others differ."""
    ranks = {job_id({"MASTER_ADDR": "a", "RANK": str(rank)}, "/home/u/bert") for rank in range(4)}

    assert 1 == len(ranks)
    assert ranks.isdisjoint({job_id({"MASTER_ADDR": "b"}, "/home/u/bert"), job_id({"MASTER_ADDR": "a"}, "/home/u/x")})
    assert ranks.pop().startswith("bert-")


def test_torchruns_placeholder_is_no_id() -> None:
    """`none`, which torchrun puts where it has no id, would throw all jobs together."""
    assert job_id({}, "/w") == job_id({"TORCHELASTIC_RUN_ID": "none"}, "/w")


@given(st.text(), st.text())
def test_a_job_id_can_stand_in_a_file_name(name: str, cwd: str) -> None:
    """Whatever a job is called, its id is short and plain."""
    assert re.fullmatch(r"[0-9A-Za-z_-][0-9A-Za-z._-]{0,95}", job_id({"AIDIAG_JOB_ID": name}, cwd))


def test_long_ids_stay_apart() -> None:
    """Two long names that begin alike do not become one."""
    assert job_id({"AIDIAG_JOB_ID": "x" * 200 + "a"}, "/") != job_id({"AIDIAG_JOB_ID": "x" * 200 + "b"}, "/")


def test_an_identity_holds_what_is_allowed() -> None:
    """Settings that explain a job are told, and nothing else of the environment."""
    told = identity(
        {
            "RANK": "1",
            "WORLD_SIZE": "2",
            "NCCL_DEBUG": "INFO",
            "WANDB_API_KEY": "secret",
            "TORCHELASTIC_RESTART_COUNT": "2",
        },
        "/w",
    )

    assert {"RANK": "1", "WORLD_SIZE": "2", "NCCL_DEBUG": "INFO", "TORCHELASTIC_RESTART_COUNT": "2"} == told["env"]
    assert 2 == told["restart_count"]


def test_a_process_knows_when_it_started() -> None:
    """The start time of a process is a time of day not long ago."""
    told = process_identity(owner.this_process())

    assert os.getpid() == told["pid"]
    assert isinstance(told["started_unix"], float) and isinstance(told["attached_unix"], float)
    assert told["started_unix"] < told["attached_unix"] < told["started_unix"] + 86400
