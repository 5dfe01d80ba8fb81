"""What of an environment may be told."""

from __future__ import annotations

import pytest

from aidiag.trainer_shim.environment import allowed, looks_secret, redact

# Made up, in the shape of the real ones.
SECRETS = [
    "AKIA" + "ABCDEFGHIJKLMNOP",
    "hf_" + "abcdefghijklmnopqrstuvwxyz",
    "ghp_" + "ABCDEFGHIJ0123456789abcdefghij012345",
    "sk-" + "proj-0123456789abcdef",
    "eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.x",
    "Bearer abcdef0123456789",
    "https://user:hunter2@host/path",
    "0123456789abcdef0123456789abcdef01234567",
    "Zk3vQ9xT7pLm2RsW8yBn4JcF6hGd1aEuKi0o",
]
PLAIN = [
    "INFO",
    "mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1,mlx5_4:1,mlx5_5:1,mlx5_6:1,mlx5_7:1",
    "GPU-8f6bd0e9-0d4f-4c11-9d53-2a7a0a4c5e1f",
    "a2b1c3d4-0000-1111-2222-333344445555",
    "/opt/nccl/topology/dgx-h100-8gpu-8nic.xml",
    "expandable_segments:True,max_split_size_mb:512",
    "https://host:8080/path",
    "^docker0,lo,veth,virbr",
]


@pytest.mark.parametrize("text", SECRETS)
def test_secrets_are_seen(text: str) -> None:
    """Keys, tokens and passwords are seen by their shape, alone and in a sentence."""
    assert looks_secret(text)
    assert looks_secret(f"value={text}, and so on")
    assert text.split("//")[-1].split("@")[0] not in redact(f"cannot read {text} today")


@pytest.mark.parametrize("text", PLAIN)
def test_plain_settings_are_kept(text: str) -> None:
    """Device lists, ids, paths and options are no secrets."""
    assert not looks_secret(text)
    assert text == redact(text)


def test_only_known_names_are_told() -> None:
    """A name that is not on the list is not told; a listed one with a secret in name or value is not, either."""
    environ = {
        "NCCL_IB_HCA": "mlx5_0",
        "PATH": "/bin",
        "NCCL_AUTH_TOKEN": "x",
        "GLOO_X": SECRETS[0],
        "OMP_NUM_THREADS": "4",
    }

    assert {"NCCL_IB_HCA": "mlx5_0", "OMP_NUM_THREADS": "4"} == allowed(environ)


def test_long_values_are_cut() -> None:
    """A value takes a bounded part of a record."""
    assert 200 == len(allowed({"NCCL_DEBUG_FILE": "/a" * 500})["NCCL_DEBUG_FILE"])
