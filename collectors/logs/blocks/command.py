"""A command behind a prompt, with its output."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from aidiag.collectors.logs.blocks.block import Outcome, TextBlock
from aidiag.collectors.logs.prefix import read_labels
from aidiag.collectors.logs.scanner import Line
from aidiag.collectors.observation import FieldValue

LINES_LIMIT = 400
"""An output of more lines is judged by these; a job that is started from a prompt prints without end."""

TEXT_LIMIT = 4_000


class Command(TextBlock):
    """`$ lsmod | grep peermem` and what follows, to the next prompt. That nothing follows is a fact as well.

    The command is the program without `sudo`, `ssh HOST`, `kubectl exec POD --` and the like; `host` is that of the prompt or
    of `ssh`; `output` has one blank
    where the table had several; `value` is there where a whole number is all that was printed, by each host that was asked.
    """

    reopens: ClassVar[bool] = True
    takes_others: ClassVar[bool] = True

    _PROMPT = re.compile(
        r"\s{0,8}(?:\([\w.-]{1,40}\) )?"
        r"(?:\[?(?P<user>[\w.-]{1,64})@(?P<host>[A-Za-z0-9][\w.-]{0,253})[: ]{0,2}[^\s$#\]]{0,200}\]?|[\w.-]{1,64}:[^\s$#]{1,200}|sh-[\d.]{1,8}|(?P<bare>[A-Za-z][\w.-]{0,62}))?"
        r"[ ]?(?P<sign>[$#>])(?:[ ](?P<line>.{1,1000}))?"
    )
    _WRAPPERS = (
        re.compile(r"(?:sudo|time|nohup|watch|env|chroot /host)[ ]{1,4}(?:-\S{1,20}[ ]{1,4}){0,4}(?:[A-Z_]{1,40}=\S{0,200}[ ]{1,4}){0,8}"),
        re.compile(r"[A-Z][A-Z0-9_]{1,40}=\S{0,200}[ ]{1,4}"),
        re.compile(r"ssh[ ]{1,4}(?:-[A-Za-z](?:[ ]{1,4}\S{1,80})?[ ]{1,4}){0,4}(?:[\w.-]{1,64}@)?(?P<host>[A-Za-z0-9][\w.-]{0,253})[ ]{1,4}"),
        re.compile(r"kubectl[ ](?:[^|;]{0,200}[ ])?exec[ ][^|;]{1,200}? -- "),
        re.compile(r"(?:docker|podman|nerdctl|crictl)[ ]exec[ ](?:-\S{1,20}[ ]){0,4}[\w./-]{1,100}[ ]"),
        re.compile(
            r"(?:srun|mpirun|mpiexec(?:\.hydra)?|flux|pdsh|clush|parallel-ssh|pssh|ansible|dsh)[ ][^|;]{0,300}?[ ]"
            r"(?=(?:ba)?sh[ ]-l?c[ ]|[\"']?(?:ulimit|lsmod|ibstat|ibv_devinfo|cat|nvidia-smi|sysctl|uname|hostname|df|free)\b)"
        ),
        re.compile(r"(?:ba)?sh[ ]-l?c[ ]"),
        re.compile(r"[\"']"),
    )  # fmt: skip
    _NAME = re.compile(r"(?:[\w./-]{0,200}/)?(?P<name>[A-Za-z][\w.+-]{0,60})(?=[\s;|&\"']|$)")
    _FACT = re.compile(r"\s{0,8}# ?[\w -]{1,60}:(?:\s|$)")
    _REMARK = re.compile(r"# ?[\w -]{1,60}:(?:\s|$)|# (?!#)")
    _WHO = re.compile(r"^(?:\d{1,6}|[A-Za-z][\w.-]{0,100}): ")
    _VALUE = re.compile(r"-?\d{1,18}")

    def __init__(self, fields: Mapping[str, FieldValue], doubtful: bool) -> None:
        self.over = False
        self._fields: dict[str, FieldValue] = {}
        self._opening: tuple[Line, int] | None = None
        self._remarks = True
        self._output: list[str] = []
        self._size = 0

    def take(self, line: Line, start: int, content: str) -> list[Outcome]:
        """Read the command, a line of its output, or what comes after it."""
        if self.over:
            return []
        if self._opening is None:
            self._opening = (line, start)
            self.over = not self._read_command(content)
            return []
        prompt = self._PROMPT.fullmatch(content[:1_200])
        remark = self._remarks and self._REMARK.match(content)
        if (prompt and _certain(prompt)) or remark or _is_of_a_job(line):
            return self.close()
        if content.strip():
            self._output.append(" ".join(content.split())[: max(0, TEXT_LIMIT - self._size)])
            self._size += len(self._output[-1]) + 1
        return self.close() if len(self._output) >= LINES_LIMIT else []

    def close(self) -> list[Outcome]:
        """The command with the output that has been read so far."""
        if self.over or self._opening is None:
            return []
        self.over = True
        fields: dict[str, FieldValue] = {"lines": len(self._output)}
        if self._output:
            fields["output"] = "\n".join(text for text in self._output if text)
            answers = {self._WHO.sub("", text) for text in self._output}
            if len(answers) == 1 and self._VALUE.fullmatch(answer := answers.pop()):
                fields["value"] = int(answer)
        return [Outcome(*self._opening, self._fields | fields)]

    def _read_command(self, content: str) -> bool:
        prompt = self._PROMPT.fullmatch(content[:1_200])
        if (
            not prompt
            or not prompt["line"]
            or (not _certain(prompt) and (prompt["sign"] == ">" or self._FACT.match(content)))
        ):
            return False
        line, host = prompt["line"].strip(), prompt["host"] or prompt["bare"] or ""
        for _ in range(8):
            wrapped = next((found for one in self._WRAPPERS if (found := one.match(line))), None)
            if wrapped is None:
                break
            host = wrapped.groupdict().get("host") or host
            line = line[wrapped.end() :].lstrip()
        name = self._NAME.match(line)
        if not name:
            return False
        self._fields = {"command": name["name"], "arguments": line[name.end() :].strip(" \"'")}
        if host:
            self._fields["host"] = host
        self._remarks = name["name"] not in ("cat", "grep", "head", "tail", "sed")
        return True


def _certain(prompt: re.Match[str]) -> bool:
    """Whether a prompt is none of the things that `# ` and `> ` also begin: a remark, a heading, a quotation."""
    return prompt["sign"] == "$" or bool(prompt["user"]) or bool(prompt["bare"]) or not prompt["line"]


def _is_of_a_job(line: Line) -> bool:
    """Whether the labels of a line are those of a process of a job, which no command prints."""
    labels = read_labels(line.text)
    return (labels.rank, labels.local_rank, labels.task, labels.pid) != (None, None, None, None)
