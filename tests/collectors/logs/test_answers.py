"""Answers of hosts to the same command."""

from __future__ import annotations

from aidiag.collectors.logs.comparing.answers import COMMANDS_KEPT, Answers
from aidiag.collectors.observation import Event, Place


def asked(host: str, output: str, command: str = "cat", order: int = 0) -> Event:
    """What a command printed on a host."""
    fields = {"host": host, "command": command, "arguments": "/sys/x", "output": output}
    return Event("command_output", None, None, fields, place=Place("host.txt", order, f"$ ssh {host} {command}"))


def told(*events: Event) -> list[str]:
    """What is remarked on some answers."""
    answers = Answers()
    for event in events:
        answers.add(event)
    return [str(event.fields["text"]) for event in answers.finish()]


def test_answers_that_differ_are_remarked() -> None:
    """Two hosts that answer otherwise are told side by side, with the last command as evidence."""
    assert ["cat /sys/x: node-a 4096 node-b 1024 differ "] == told(asked("node-a", "4096"), asked("node-b", "1024"))


def test_the_same_answers_are_not() -> None:
    """Hosts that agree say nothing, whatever the blanks; nor does one host alone."""
    assert [] == told(asked("a", "4096"), asked("b", " 4096\n"))
    assert [] == told(asked("a", "1"), asked("a", "2"))


def test_long_answers_and_other_commands_are_not_compared() -> None:
    """Tables differ anyhow, and two commands have two answers."""
    assert [] == told(asked("a", "x" * 200), asked("b", "y" * 200))
    assert [] == told(asked("a", "1", "ls"), asked("b", "2", "cat"))


def test_what_is_remembered_is_bounded() -> None:
    """Beyond the limit further commands are passed over."""
    many = [asked(host, host, f"c{number}") for number in range(COMMANDS_KEPT + 9) for host in ("a", "b")]
    assert COMMANDS_KEPT == len(told(*many))
