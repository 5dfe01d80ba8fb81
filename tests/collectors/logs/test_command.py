"""Commands at a prompt: what was run, where, and what it printed, above all that it printed nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aidiag.collectors.logs.blocks.command import LINES_LIMIT
from aidiag.collectors.logs.compiled import Catalogue
from aidiag.collectors.logs.stream import LogStream

Read = Callable[..., list[Any]]


def commands(events: list[Any]) -> list[dict[str, Any]]:
    """The fields of the commands among events, without what every event has."""
    return [
        {name: value for name, value in one.fields.items() if name not in ("message", "severity")}
        for one in events
        if one.kind == "command_output"
    ]


def test_that_a_command_printed_nothing_is_a_fact(read: Read) -> None:
    """The next prompt, a note and the end of the log each close an output without lines."""
    told = commands(read("$ lsmod | grep peermem\n$ lsmod | grep nv_peer\n# seen: it was slow\n# ibstat\n"))
    assert [(one["command"], one["arguments"], one["lines"]) for one in told] == [
        ("lsmod", "| grep peermem", 0),
        ("lsmod", "| grep nv_peer", 0),
        ("ibstat", "", 0),
    ]


@pytest.mark.parametrize("prompt", ["$", "#", "user@node-a:~$", "[root@node-a ~]#", "node-a$", "node-a# uptime"])
def test_a_prompt_ends_an_output(read: Read, prompt: str) -> None:
    """Whatever the prompt looks like, and with nothing behind it too."""
    assert commands(read(f"$ lsmod | grep peermem\n{prompt}\nmore\n"))[0]["lines"] == 0


def test_lines_of_a_job_are_not_what_a_command_printed(read: Read) -> None:
    """A rank's log goes on after a command that printed nothing."""
    log = "$ lsmod | grep peermem\nnode-a:1201:1310 [0] NCCL INFO Bootstrap : Using eth0:192.0.2.2<0>\n"
    assert commands(read(log))[0]["lines"] == 0


def test_output_with_the_name_of_a_host_is_output(read: Read) -> None:
    """What the kernel's log says behind a host's name belongs to the command that shows it."""
    log = "$ journalctl -k\nNov 30 20:18:29 node-a kernel: usb 1-1: new device\n[    1.000000] loop: module loaded\n"
    assert commands(read(log))[0]["lines"] == 2


@pytest.mark.parametrize(
    ("prompt", "host"),
    [
        ("$ ", None),
        ("# ", None),
        ("user@node-a:~$ ", "node-a"),
        ("[root@node-a ~]# ", "node-a"),
        ("(base) user@node-a:/data/run_1$ ", "node-a"),
        ("$ ssh root@node-b ", "node-b"),
        ("$ sudo ssh -p 22 node-b ", "node-b"),
        ("$ kubectl -n x exec -it worker-0 -- ", None),
        ("$ docker exec -it trainer ", None),
        ("node-a$ ", "node-a"),
        ("node-a# ", "node-a"),
        ("user@node-a:~$ sudo -E LC_ALL=C ", "node-a"),
    ],
)
def test_a_command_is_found_behind_prompts_and_wrappers(read: Read, prompt: str, host: str | None) -> None:
    """Who runs it how does not hide what is run; the host is the one it ran on."""
    (told,) = commands(read(f"{prompt}ulimit -l\n64\n"))
    assert (told["command"], told["arguments"], told["value"], told.get("host")) == ("ulimit", "-l", 64, host)


@pytest.mark.parametrize(
    "line", ["please run $ lsmod | grep peermem", "# ulimit -l: 64", "# free: 3", "cost in $ free"]
)
def test_words_that_only_mention_a_command_are_none(read: Read, line: str) -> None:
    """A command stands behind a prompt at the start of its line; `# name: value` is a note."""
    assert commands(read(f"{line}\nmore\n")) == []


def test_a_job_that_prints_on_and_on_is_let_go(read: Read) -> None:
    """An output is read up to a limit, and its text kept within one."""
    (told,) = commands(read("$ cat train.log\n" + "step done\n" * 5_000))
    assert told["lines"] == LINES_LIMIT
    assert len(told["output"]) <= 4_000


@settings(max_examples=150, deadline=None)
@given(lines=st.lists(st.text(alphabet="ab$# @~:[]()'\"-|\t", max_size=60), max_size=12))
def test_no_line_breaks_the_reading(catalogue: Catalogue, lines: list[str]) -> None:
    """Whatever follows a command, it is told once, with at most all lines as its output."""
    stream = LogStream(catalogue, "job.log", job="j")
    events = [*stream.feed(("$ lsmod\n" + "\n".join(lines) + "\n").encode()), *stream.finish()]
    told = [one for one in commands(events) if one["command"] == "lsmod"]
    assert len(told) == 1
    assert told[0]["lines"] <= len(lines)


@pytest.mark.parametrize(
    "asked",
    [
        "srun -N2 sh -c 'ulimit -l'",
        "flux run -N2 bash -c 'ulimit -l'",
        "pdsh -w node-[a-b] ulimit -l",
        "mpirun -np 2 sh -c 'ulimit -l'",
    ],
)
@pytest.mark.parametrize("answer", ["64\n64\n", "node-a: 64\nnode-b: 64\n"])
def test_what_a_launcher_asked_of_every_host_is_that_command(read: Read, asked: str, answer: str) -> None:
    """The limit where the ranks run is asked for through what starts them; all hosts say the same."""
    told = commands(read(f"$ {asked}\n{answer}"))[0]
    assert (told["command"], told["arguments"], told["value"]) == ("ulimit", "-l", 64)


def test_hosts_that_do_not_agree_give_no_value(read: Read) -> None:
    """One has another limit."""
    assert "value" not in commands(read("$ pdsh -a ulimit -l\nnode-a: 64\nnode-b: 8192\n"))[0]
