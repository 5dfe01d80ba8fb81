"""The settings of the job's communication libraries on a node: environment and NCCL's configuration files."""

from __future__ import annotations

from collections.abc import Mapping

from aidiag.collectors.errors import CollectorError
from aidiag.collectors.node import Node


def job_settings(node: Node) -> Mapping[str, str]:
    """The job's environment, and beneath it what NCCL reads from files (src/misc/param.cc, initEnvFunc): the one in
    NCCL_CONF_FILE, else ~/.nccl.conf, then /etc/nccl.conf; the first to set a variable wins. Raises OSError where the
    environment is not known.
    """
    environ = node.environ()
    settings = {name: value for name, value in environ.items() if not name.startswith("AIDIAG_")}
    home = environ.get("HOME", "")
    own = environ.get("NCCL_CONF_FILE") or (f"{home}/.nccl.conf" if home else "")
    for path in (own, "/etc/nccl.conf"):
        if path.startswith("/"):
            try:
                text = node.text(path)
            except (OSError, CollectorError):
                continue
            for name, value in parse_nccl_file(text).items():
                settings.setdefault(name, value)
    return settings


def parse_nccl_file(text: str) -> dict[str, str]:
    """NAME=value lines, comments start with `#`; blanks belong to names and values. The first of equals wins."""
    settings: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and name.startswith("NCCL_"):
            settings.setdefault(name, value)
    return settings
