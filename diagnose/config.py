"""The operator's settings: `/etc/aidiag/config.toml`, then the user's own file, then `--config FILE`; later ones win.

    port = 9877
    listen = "127.0.0.1"
    lang = "en"
    disable = ["gpu"]                  # collectors that never run
    [intervals]
    host = 10                          # seconds between two readings of a collector
    [rules.input_bound]
    share_min = "20%"                  # a threshold of a rule

Unknown keys are errors, so that a misspelt setting does not pass for one in force.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ETC = Path("/etc/aidiag")
DEFAULT_PORT = 9877
SIZE_LIMIT_BYTES = 1 << 20


class ConfigError(Exception):
    """A settings file cannot be used; the text names the file, the key and what to do."""


@dataclass(frozen=True, slots=True)
class Config:
    """All settings with their defaults. `intervals` are seconds; `rules` maps rule id to its thresholds."""

    port: int = DEFAULT_PORT
    listen: str = "127.0.0.1"
    lang: str = ""
    disable: tuple[str, ...] = ()
    intervals: Mapping[str, float] = field(default_factory=dict)
    rules: Mapping[str, Mapping[str, str | int | float | bool]] = field(default_factory=dict)
    rules_folder: Path = ETC / "rules.d"
    waivers_file: Path = ETC / "waivers.yaml"


KEYS = tuple(field for field in Config.__dataclass_fields__)


def user_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Where a user's own settings lie (XDG base directory specification)."""
    base = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME", "/")) / ".config")
    return Path(base) / "aidiag" / "config.toml"


def load(explicit: Path | None = None, *, usual: Iterable[Path] | None = None) -> Config:
    """The settings in force. `explicit` must exist, the `usual` files may. Raises ConfigError."""
    config = Config()
    for path in (ETC / "config.toml", user_file()) if usual is None else usual:
        if path.is_file():
            config = _layer(config, path)
    if explicit is not None:
        config = _layer(config, explicit)
    return config


def _layer(config: Config, path: Path) -> Config:
    try:
        if path.exists() and not path.is_file():
            raise ConfigError(f"{path}: is not a regular file; give another --config FILE")
        with open(path, "rb") as stream:
            table = tomllib.loads(stream.read(SIZE_LIMIT_BYTES).decode("utf-8"))
    except OSError as problem:
        raise ConfigError(f"{path}: cannot be read: {problem.strerror}; give another --config FILE") from None
    except UnicodeDecodeError as problem:
        raise ConfigError(f"{path}: not UTF-8 at byte {problem.start}; save it as UTF-8 text") from None
    except RecursionError:
        raise ConfigError(f"{path}: not TOML: it is nested too deeply") from None
    except tomllib.TOMLDecodeError as problem:
        raise ConfigError(f"{path}: not TOML: {problem}") from None
    return replace(config, **{key: _value(path, key, value) for key, value in table.items()})


def _value(path: Path, key: str, value: Any) -> Any:
    if key not in KEYS:
        near = difflib.get_close_matches(key, KEYS, 1)
        hint = f"did you mean `{near[0]}`?" if near else f"there are: {', '.join(KEYS)}"
        raise ConfigError(f"{path}: unknown key `{key}`; {hint}")
    try:
        converted = msgspec.convert({key: value}, type=Config, strict=True, dec_hook=lambda kind, given: kind(given))
    except msgspec.ValidationError as problem:
        raise ConfigError(f"{path}: `{key}`: {problem}; correct the value") from None
    checked = getattr(converted, key)
    if key == "port" and not 0 <= checked <= 65535:
        raise ConfigError(f"{path}: `port`: {checked} is no port; give 0 to 65535")
    if key == "intervals" and any(not 0 < seconds < float("inf") for seconds in checked.values()):
        raise ConfigError(f"{path}: `intervals`: every interval is a number of seconds above 0")
    if key in ("disable", "intervals") and checked:
        _known_collectors(path, key, checked)
    return checked


def _known_collectors(path: Path, key: str, names: Iterable[str]) -> None:
    from aidiag.collectors import COLLECTORS  # only who names collectors pays for loading them

    for name in names:
        if name not in COLLECTORS:
            near = difflib.get_close_matches(name, COLLECTORS, 1)
            hint = f"did you mean `{near[0]}`?" if near else f"there are: {', '.join(COLLECTORS)}"
            raise ConfigError(f"{path}: `{key}`: there is no collector `{name}`; {hint}")
