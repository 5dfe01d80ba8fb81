"""Facts that a person or an agent noted beside the logs, one a line: `# name: value`, the value a word or JSON.

The names are of anybody's choosing, so that each fact is told as prose: `# mtu: {"node-a": 9000, "node-b": 1500}` says
"mtu: node-a 9000 node-b 1500 differ".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from aidiag.collectors.observation import Event, Place
from aidiag.collectors.subject import job as job_subject

FILE_NAME = "host.txt"
"""Where such facts lie in the folder of an incident."""
SIZE_LIMIT_BYTES = 256 << 10
"""So much of the file is looked at."""
FACTS_LIMIT = 512
TEXT_LIMIT = 400

_FACT = re.compile(r"# (?!seen:)([A-Za-z][\w .=-]{0,63}): (\S.{0,2000})$")


def noted_facts(path: Path, source: str, job: str = "") -> Iterator[Event]:
    """The facts of a host.txt as events of the kind `remark`. Raises OSError where it cannot be read."""
    with open(path, "rb") as file:
        data = file.read(SIZE_LIMIT_BYTES)
    found = 0
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        if found < FACTS_LIMIT and "\ufffd" not in line and (fact := _FACT.match(line)):
            found += 1
            text = f"{fact[1].replace('_', ' ')}: {_as_prose(fact[2])} ".lower()[:TEXT_LIMIT]
            subject = job_subject(job) if job else None
            yield Event("remark", subject, None, {"text": text}, place=Place(source, number, line[:TEXT_LIMIT]))


def _as_prose(value: str) -> str:
    try:
        data = json.loads(value)
    except ValueError:
        return value.strip()
    if not isinstance(data, dict):
        return " ".join(map(_word, data)) if isinstance(data, list) else _word(data)
    told = " ".join(f"{name} {_word(one)}" for name, one in data.items())
    return f"{told} differ" if len({_word(one) for one in data.values()}) > 1 else told


def _word(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
