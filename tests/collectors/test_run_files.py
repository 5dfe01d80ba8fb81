"""The file of a run: one form for its writer and its readers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from aidiag.collectors.run_files import ProcessMark, RunFile, encode_run, name_of, read_run, read_runs

RUN = RunFile("7", "j", "a", ("train",), "/w", 1000.0, None, child=ProcessMark(8, 9, 10, "boot"), rank=3)


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    """All runs of a folder, oldest first; broken, half-made and linked files are none."""
    younger = replace(RUN, key="6", started=2000.0, exit_status=0)
    for run in (younger, RUN):
        (tmp_path / name_of(run.key)).write_bytes(encode_run(run))
    (tmp_path / "run-8.json").write_text('{"child_pid": 10, "exit_status": null}')
    (tmp_path / "run-9.json").touch()
    (tmp_path / "run-10.json").symlink_to(name_of("7"))
    assert read_runs(tmp_path) == [RUN, younger]
    assert read_run(tmp_path / "run-10.json") is None
    assert read_runs(tmp_path / "nothing") == []


@pytest.mark.parametrize(
    ("status", "code"), [(None, None), (0, 0), (1, 1), (128, 128), (129, -1), (137, -9), (192, -64), (193, 193), (255, 255)]
)  # fmt: skip
def test_exit_codes(status: int | None, code: int | None) -> None:
    """128+N is the end by signal N, as shells and `aidiag run` say it; no signal is above 64."""
    assert replace(RUN, exit_status=status).exit_code == code
