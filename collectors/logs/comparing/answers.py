"""The same command on several hosts, and answers that are not the same."""

from __future__ import annotations

from collections.abc import Iterator

from aidiag.collectors.logs.comparing.found import found
from aidiag.collectors.observation import Event

COMMANDS_KEPT = 256
HOSTS_KEPT = 64
ANSWER_CHARACTERS = 120
"""Longer answers (lists of processes, logs) differ anyhow and say nothing."""


class Answers:
    """Notes, in the words of a remark, the commands to which hosts gave different answers."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str], dict[str, Event]] = {}

    def add(self, event: Event) -> None:
        """Take note of what a command printed on a host."""
        host = event.fields.get("host")
        if event.kind != "command_output" or not host or len(str(event.fields.get("output", ""))) > ANSWER_CHARACTERS:
            return
        command = (str(event.fields.get("command", "")), str(event.fields.get("arguments", "")))
        if command in self._told or len(self._told) < COMMANDS_KEPT:
            hosts = self._told.setdefault(command, {})
            if len(hosts) < HOSTS_KEPT:
                hosts.setdefault(str(host), event)

    def finish(self) -> Iterator[Event]:
        """A remark for each command to which the answers differ."""
        for (command, arguments), hosts in self._told.items():
            answers = {host: " ".join(str(one.fields.get("output", "nothing")).split()) for host, one in hosts.items()}
            if len(set(answers.values())) > 1:
                told = " ".join(f"{host} {answer}" for host, answer in answers.items())
                last = list(hosts.values())[-1]
                yield found("remark", last, text=f"{command} {arguments}: {told} differ ".lower())
