"""Real programs that tests run: where one is missing, a test is skipped with the reason, and fails in CI."""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest

PACKAGES = {
    "amtool": "prometheus-alertmanager",
    "chromium": "chromium",
    "gcc": "gcc libc6-dev",
    "ip": "iproute2",
    "munged": "munge",
    "nft": "nftables",
    "node": "nodejs",
    "npm": "npm",
    "prometheus": "prometheus",
    "prometheus-alertmanager": "prometheus-alertmanager",
    "promtool": "prometheus",
    "rg": "ripgrep",
    "sbatch": "slurm-client",
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "srun": "slurm-client",
    "systemd-analyze": "systemd",
    "systemd-sysusers": "systemd",
}


def require(command: str) -> str:
    """The path of a program, or the end of the test: a skip, and with AIDIAG_CI=1 a failure."""
    path = shutil.which(command, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if path is None:
        package = PACKAGES.get(command, command)
        missing(f"{command} is not installed; apt-get install --no-install-recommends {package}")
    return path


def missing(reason: str) -> NoReturn:
    """End the test for want of a real part, as `require` does."""
    if os.environ.get("AIDIAG_CI") == "1":
        pytest.fail(f"in CI every real part must be there: {reason}", pytrace=False)
    pytest.skip(reason)
