"""Printing environment variables so that a shell, Docker or Kubernetes takes them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping


def sh(variables: Mapping[str, str]) -> str:
    """For sh, bash, zsh, dash, ksh: eval "$(aidiag env)"."""
    return "".join(f"export {name}={shlex.quote(value)};\n" for name, value in variables.items())


def csh(variables: Mapping[str, str]) -> str:
    """For csh and tcsh: eval `aidiag env --shell csh`. There ! is expanded within quotes too, and a newline must be
    escaped.
    """
    return "".join(f"setenv {name} {_csh_quote(value)};\n" for name, value in variables.items())


def fish(variables: Mapping[str, str]) -> str:
    """For fish: aidiag env --shell fish | source."""
    return "".join(f"set -gx {name} {_fish_quote(value)};\n" for name, value in variables.items())


def as_json(variables: Mapping[str, str]) -> str:
    """One JSON object."""
    return json.dumps(variables, indent=1) + "\n"


def docker(variables: Mapping[str, str]) -> str:
    """Arguments for docker or podman run: eval docker run "$(aidiag env --shell docker)" IMAGE ..."""
    return " ".join(f"-e {shlex.quote(f'{name}={value}')}" for name, value in variables.items()) + "\n"


def kubernetes(variables: Mapping[str, str]) -> str:
    """The `env` list of a container. A $ is doubled, since Kubernetes expands $(NAME) in values."""
    lines = ["env:"]
    for name, value in variables.items():
        lines += [f"- name: {name}", f"  value: {_yaml_quote(value.replace('$', '$$'))}"]
    return "\n".join(lines) + "\n"


FORMATS: dict[str, Callable[[Mapping[str, str]], str]] = {
    "sh": sh,
    "csh": csh,
    "fish": fish,
    "json": as_json,
    "docker": docker,
    "k8s": kubernetes,
}

ABROAD = {"docker", "k8s"}
"""Formats for a machine whose folders and search paths are not those of this one."""


def _yaml_quote(value: str) -> str:
    """A double-quoted YAML scalar in plain ASCII. JSON would not do: YAML does not join surrogate pairs."""
    return '"' + "".join(map(_yaml_escape, value)) + '"'


def _yaml_escape(character: str) -> str:
    code = ord(character)
    if character in '"\\':
        return f"\\{character}"
    if " " <= character <= "~":
        return character
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _csh_quote(value: str) -> str:
    quoted = value.replace("'", "'\\''").replace("!", "\\!").replace("\n", "\\\n")
    return f"'{quoted}'"


def _fish_quote(value: str) -> str:
    quoted = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{quoted}'"
