"""Settings files: what is taken, and what is refused with place and remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from aidiag.diagnose.config import Config, ConfigError, load


def write(folder: Path, text: str, name: str = "config.toml") -> Path:
    """A settings file with this text."""
    path = folder / name
    path.write_text(text)
    return path


def test_no_file_is_the_defaults(tmp_path: Path) -> None:
    """Without any file every setting has its default."""
    assert Config() == load(usual=[tmp_path / "none.toml"])


def test_later_files_win(tmp_path: Path) -> None:
    """The explicit file overrides the usual ones key by key."""
    first = write(tmp_path, 'port = 1000\nlang = "zh"\n', "a.toml")
    second = write(tmp_path, '[rules.input_bound]\nshare_min = "30%"\n[intervals]\nhost = 10\n', "b.toml")
    explicit = write(tmp_path, "port = 2000\n")

    config = load(explicit, usual=[first, second])

    assert (2000, "zh") == (config.port, config.lang)
    assert {"input_bound": {"share_min": "30%"}} == config.rules
    assert {"host": 10.0} == config.intervals


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("prot = 1", ["prot", "did you mean `port`"]),
        ("frobnicate = 1", ["frobnicate", "there are: port"]),
        ("port = 70000", ["port", "0 to 65535"]),
        ('port = "a"', ["port", "int"]),
        ("[intervals]\nhost = 0\n", ["intervals", "above 0"]),
        ("[intervals]\nhost = nan\n", ["intervals", "above 0"]),
        ("[intervals]\nhots = 5\n", ["no collector `hots`", "did you mean `host`?"]),
        ('disable = ["gpus"]\n', ["no collector `gpus`", "did you mean `gpu`?"]),
        ("port = ", ["not TOML", "end of document"]),
        ("port = 1\nport = 2\n", ["not TOML", "line 2"]),
    ],
)
def test_bad_settings_say_where_and_what(tmp_path: Path, text: str, words: list[str]) -> None:
    """An error is one line that names the file, the key and what to do."""
    path = write(tmp_path, text)

    with pytest.raises(ConfigError) as caught:
        load(path, usual=[])

    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    for word in words:
        assert word in message


def test_missing_explicit_file_is_an_error(tmp_path: Path) -> None:
    """A file that was asked for by name must exist."""
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load(tmp_path / "nope.toml", usual=[])


def test_binary_file_is_an_error(tmp_path: Path) -> None:
    """A file that is not text is refused with the place of the first bad byte."""
    path = tmp_path / "config.toml"
    path.write_bytes(b"port = 1\n\xff\xfe")

    with pytest.raises(ConfigError, match="not UTF-8 at byte 9"):
        load(path, usual=[])
