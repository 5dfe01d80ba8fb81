"""Bad input to any command: one line of clear error, status 3, no traceback; odd but legal input is no error."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from aidiag.diagnose.cli import main

RULE = """\
id: planted
cause: planted
title: Planted
severity: warning
scope: host
when: {when}
summary: s
why: w
remedy: [{{do: d}}]
tests: []
"""


def run(*arguments: str) -> int:
    """The exit status of a command line."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """This machine's own settings and language play no part."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.delenv("AIDIAG_DEBUG", raising=False)
    monkeypatch.chdir(tmp_path)


def write(name: str, content: str | bytes) -> str:
    """A file in the working directory."""
    path = Path(name)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return name


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["diagnose", "nope.log"], ["nope.log", "no such file", "give a log"]),
        (["diagnose"], ["PATH"]),
        (["diagnose", "--frmat", "json", "x"], ["--frmat", "--format"]),
        (["check", "--root", "nope"], ["nope", "no such folder"]),
        (["check", "--only", "gpuu"], ["gpuu", "did you mean gpu"]),
        (["check", "--config", "nope.toml"], ["nope.toml", "No such file"]),
        (["explain", "input_bond"], ["input_bond", "did you mean input_bound"]),
        (["rules", "lint", "nope"], ["nope", "no such file or folder"]),
        (["rules", "test", "nope"], ["nope", "no such file or folder"]),
        (["run"], ["CMD"]),
        (["daemon", "--port", "99999999"], ["--port"]),
        (["demo", "nope"], ["nope"]),
        (["frobnicate"], ["frobnicate"]),
        (["chekc"], ["did you mean 'check'"]),
    ],
)
def test_one_line_and_status_3(arguments: list[str], words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Usage errors and missing paths say what, where and what to do."""
    assert 3 == run(*arguments)
    error = capsys.readouterr().err

    assert 1 == len(error.strip().splitlines()), error
    assert error.startswith("aidiag: ")
    assert "Traceback" not in error
    for word in words:
        assert word in error


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        (RULE.format(when="host_cpus > 1").replace("title", "titel"), "rule.yaml:3:1", ["titel", "did you mean title"]),
        (RULE.format(when="host_cpuz > 1"), "rule.yaml:6:7", ["host_cpuz", "did you mean host_cpus"]),
        (RULE.format(when="host_memory_total_bytes > 3s"), "rule.yaml:6:", ["bytes", "seconds"]),
        (RULE.format(when="host_cpus >"), "rule.yaml:6:", []),
        (RULE.format(when="__import__('os')"), "rule.yaml:6:", []),
        ("id: [", "rule.yaml:", []),
        ("", "rule.yaml:", []),
    ],
)
def test_rule_errors_have_their_place(
    text: str, place: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """`rules lint` names file, line and column of each fault and exits with 3."""
    write("rule.yaml", text)

    assert 3 == run("rules", "lint", "rule.yaml")
    printed = capsys.readouterr()
    assert place in printed.out
    assert "Traceback" not in printed.err
    for word in words:
        assert word in printed.out


@pytest.mark.parametrize("text", ['port = "x"', "prot = 1", "port = ", b"\xff\xfe"])
@pytest.mark.parametrize("command", [["diagnose", "empty.log"], ["check"], ["rules", "list"]])
def test_broken_config_is_one_line(command: list[str], text: str | bytes, capsys: pytest.CaptureFixture[str]) -> None:
    """A broken settings file is named, whatever the command."""
    write("empty.log", "")
    write("config.toml", text)

    assert 3 == run(*command, "--config", "config.toml")
    error = capsys.readouterr().err
    assert error.startswith("aidiag: config.toml: ")
    assert 1 == len(error.strip().splitlines())


@pytest.mark.parametrize(
    "content", [b"", b"\n\n", os.urandom(50_000), b"\x1f\x8b" + os.urandom(100), b"x" * 200_000, b"\0" * 5000]
)
def test_odd_logs_are_nothing_found(content: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    """Empty, binary and endless-line logs are read without a fuss: nothing is found, status 0."""
    write("odd.log", content)

    assert 0 == run("diagnose", "--format", "json", "odd.log")
    report = json.loads(capsys.readouterr().out)
    assert ("aidiag.report/v1", []) == (report["schema"], report["findings"])


def test_empty_folder_is_nothing_found(capsys: pytest.CaptureFixture[str]) -> None:
    """An incident folder with nothing in it is no error."""
    Path("incident").mkdir()

    assert 0 == run("diagnose", "--format", "json", "incident")
    assert [] == json.loads(capsys.readouterr().out)["findings"]


def test_broken_report_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """A report that was cut is refused by name."""
    write("report.json", '{"schema":"aidiag.report/v1","findings":[{"id":')

    assert 3 == run("diagnose", "report.json")
    assert "report.json: not a report" in capsys.readouterr().err


def test_log_with_a_fault_is_told_with_true_evidence(capsys: pytest.CaptureFixture[str]) -> None:
    """The twin of the odd logs: one planted OOM line is found, at its line, and --exit-code says critical."""
    line = (
        "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of "
        "79.15 GiB of which 1.06 GiB is free. Process 4242 has 78.08 GiB memory in use. Of the allocated memory "
        "76.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated."
    )
    write("train.log", f"epoch 1\n{line}\n")

    assert 2 == run("diagnose", "--exit-code", "--format", "json", "train.log")
    finding = json.loads(capsys.readouterr().out)["findings"][0]
    assert ("oom_capacity", [3]) == (finding["cause"], finding["culprit"]["ranks"])
    assert ("train.log", 2) == (finding["evidence"][0]["source"], finding["evidence"][0]["line"])
    assert finding["evidence"][0]["text"] in line


OOM = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 3 has a total capacity of 79 GiB"


@pytest.mark.parametrize("command", [["rules", "lint", "pipe"], ["diagnose", "--config", "pipe", "base.log"]])
def test_pipes_are_not_waited_for(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A pipe where a file is expected is refused at once."""
    write("base.log", OOM)
    os.mkfifo("pipe")

    assert 3 == run(*command)
    printed = capsys.readouterr()
    assert "not a regular file" in printed.out + printed.err


def test_empty_path_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """An unset variable does not diagnose the working directory."""
    assert 3 == run("diagnose", "")
    assert "an empty path" in capsys.readouterr().err


def test_broken_report_hides_no_log(capsys: pytest.CaptureFixture[str]) -> None:
    """Beside a report that cannot be used the logs of a folder are read, and the report is told as a gap."""
    Path("incident").mkdir()
    write("incident/c.log", OOM + "\n")
    write("incident/report.json", "{")

    assert 0 == run("diagnose", "--format", "json", "incident")
    report = json.loads(capsys.readouterr().out)
    assert ["oom_capacity"] == [finding["cause"] for finding in report["findings"]]
    assert ["report.json"] == [gap["what"] for gap in report["unknown"]]


def test_link_that_the_user_names_is_followed(capsys: pytest.CaptureFixture[str]) -> None:
    """A link on the command line leads to its file; the evidence speaks of the name that was given."""
    write("base.log", OOM + "\n")
    Path("link.log").symlink_to("base.log")

    assert 0 == run("diagnose", "--format", "json", "link.log")
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert "link.log" == finding["evidence"][0]["source"]


def test_no_raw_control_characters_anywhere(capsys: pytest.CaptureFixture[str]) -> None:
    """C1 and bidi characters of a log are escaped in JSON, and escapes in a path are in our own error line."""
    write("odd.log", f"{OOM} \u009b31m \u202e\n")

    assert 0 == run("diagnose", "--format", "json", "odd.log")
    out = capsys.readouterr().out
    assert not {"\u009b", "\u202e"} & set(out)
    assert "\u009b31m \u202e" in json.loads(out)["findings"][0]["evidence"][0]["text"]
    assert 3 == run("diagnose", "nope\x1b[31m")
    assert "\x1b" not in capsys.readouterr().err


def test_what_is_left_of_a_compressed_log_is_judged(capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be read of it is said, with what to do, and an archive is no log; nothing is drawn on what is no
    terminal.
    """
    whole = gzip.compress(f"first\n{OOM}\n".encode())
    write("in/a.log.gz", whole)
    write("in/b.log.gz", whole[:15])
    write("in/c.tar.gz", whole)
    write("in/d.json.gz", whole)

    assert 0 == run("diagnose", "--format", "json", "in")
    printed = capsys.readouterr()
    report = json.loads(printed.out)
    assert [("a.log.gz", 2)] == [(one["source"], one["line"]) for one in report["findings"][0]["evidence"]]
    gaps = {gap["what"]: (gap["reason"], gap["remedy"]) for gap in report["unknown"]}
    assert {"b.log.gz", "c.tar.gz"} == set(gaps)
    assert "cut short" in gaps["b.log.gz"][0]
    assert "unpack it" in gaps["c.tar.gz"][1]
    assert "" == printed.err


@pytest.mark.parametrize("content", [b"", b"\0" * 5000, b"aidiag", os.urandom(4096)])
def test_truncated_record_is_one_line(content: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    """A record that is cut or no record is refused by name; in a folder it is a gap and the rest is judged."""
    write("rank-0.record", content)

    assert 3 == run("diagnose", "rank-0.record")
    error = capsys.readouterr().err
    assert "rank-0.record: not a whole record" in error
    assert 1 == len(error.strip().splitlines())
    write("c.log", OOM)
    assert 0 == run("diagnose", "--format", "json", ".")
    report = json.loads(capsys.readouterr().out)
    assert ["oom_capacity"] == [finding["cause"] for finding in report["findings"]]
    assert ["rank-0.record"] == [gap["what"] for gap in report["unknown"]]
