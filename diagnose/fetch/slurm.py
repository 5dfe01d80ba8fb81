"""What Slurm knows of a job (scontrol, sacct), and where its output lies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from aidiag.collectors.logs.compressed import plain_name
from aidiag.diagnose.fetch.fetched import Fetched, FetchError, made
from aidiag.diagnose.fetch.tool import ToolError, run
from aidiag.diagnose.incident import shown
from aidiag.diagnose.report.model import Unknown

JOB = re.compile(r"\d{1,15}(?:[_+]\d{1,10})?(?:\.(?:\d{1,10}|batch|extern))?")
"""A job, one of an array (`12_3`), a part of a heterogeneous one (`12+1`); a step of it names the whole job."""

FILES_CAP = 256
NUMBER_MIN_DIGITS = 3
"""A shorter number in the name of a file may be anything."""
_LOG = re.compile(r"\.(?:log|out|err|txt|stdout|stderr|[oe]\d+)$|^[^.]+$")
FOLDER_ENTRIES_CAP = 20_000
READ_LIMIT_CHARACTERS = 8 << 20

SACCT_FIELDS = (
    "State", "ExitCode", "JobID", "JobName", "DerivedExitCode", "Reason", "Start", "End", "Elapsed", "Timelimit", "NodeList",
    "ReqMem", "MaxRSS", "WorkDir",
)  # fmt: skip
"""The state stands before the id: that is how the catalogue tells the record of a job from that of its steps."""

_SACCT_PATHS = ("StdOut", "StdErr")
"""Since Slurm 24.05, with --expand-patterns."""

_NO_LOGIN = "run it on a login node of the cluster, or give the job's log files"


def fetch_job(job: str, out: Path) -> Fetched:
    """Ask Slurm for `job`; its answers become files in a folder in `out`, and its logs are named where they lie. Raises FetchError when there is no Slurm here, or it
    does not know the job.
    """
    if not JOB.fullmatch(job):
        raise FetchError(f"{job!r} is no Slurm job id", "give a number such as 4711 or, of an array, 4711_2")
    job = job.split(".")[0]
    folder = made(out / f"slurm-{job}")
    found = Fetched()
    refused: list[ToolError] = []
    texts = []
    for name, commands in _questions(job):
        file = folder / name
        try:
            cut = _first_that_answers(commands, file)
        except ToolError as error:
            refused.append(error)
            found.gaps.append(Unknown(commands[0][0], str(error), error.remedy))
            continue
        if cut:
            found.gaps.append(Unknown(commands[0][0], cut))
        texts.append(file.read_text(encoding="utf-8", errors="backslashreplace")[:READ_LIMIT_CHARACTERS])
    if all(error.missing for error in refused) and len(refused) == 2:
        raise FetchError("neither scontrol nor sacct is installed here", _NO_LOGIN)
    facts = [*_of_scontrol(texts), *_of_sacct(texts)]
    if not facts:
        reasons = "; ".join(str(error) for error in refused) or "sacct has no record of it"
        forgot = "it forgets ended jobs without accounting: give the job's log files"
        raise FetchError(
            f"nothing is known of job {job}: {reasons}", forgot if "Invalid job id" in reasons else _NO_LOGIN
        )
    _nodes(facts, folder, found)
    _logs(job, facts, found)
    return found


def _questions(job: str) -> Iterator[tuple[str, list[list[str]]]]:
    """The files of answers, and the commands for each, of which the first that this version of Slurm understands counts."""
    yield "scontrol-job.txt", [["scontrol", "--details", "show", "job", job]]
    sacct = ["sacct", "--jobs", job, "--parsable2"]
    with_paths = [*sacct, "--expand-patterns", "--format", ",".join((*SACCT_FIELDS, *_SACCT_PATHS))]
    yield "sacct.txt", [with_paths, [*sacct, "--format", ",".join(SACCT_FIELDS)]]


def _first_that_answers(commands: list[list[str]], file: Path) -> str:
    for number, command in enumerate(commands, 1):
        try:
            return run(command, file)
        except ToolError as error:
            unknown = re.search(r"[Ii]nvalid field|unrecognized option|unknown option", str(error))
            if not unknown or number == len(commands):
                raise
            file.unlink(missing_ok=True)
    return ""


def _of_scontrol(texts: Iterable[str]) -> Iterator[dict[str, str]]:
    """The `NAME=value` of each record of a job; a path is all that stands on its line."""
    for text in texts:
        for record in re.split(r"\n(?=JobId=)", text)[1:]:
            facts = dict(re.findall(r"(?:^|\s)([A-Za-z][\w:/]*)=(\S*)", record))
            facts |= dict(re.findall(r"^[ ]*(StdOut|StdErr|WorkDir)=(.*?)[ ]*$", record, re.MULTILINE))
            yield facts


def _of_sacct(texts: Iterable[str]) -> Iterator[dict[str, str]]:
    for text in texts:
        names: list[str] = []
        for line in text.splitlines():
            values = line.split("|")
            if values[:3] == list(SACCT_FIELDS[:3]):
                names = values
            elif names and len(values) == len(names):
                yield dict(zip(names, values, strict=True))


def _nodes(facts: list[dict[str, str]], folder: Path, found: Fetched) -> None:
    """How the nodes of the job are now, and why the scheduler took them out of service."""
    nodes = ",".join(dict.fromkeys(one["NodeList"] for one in facts if _is_named(one.get("NodeList", ""))))
    if not nodes:
        return
    try:
        cut = run(["scontrol", "--oneliner", "show", "node", nodes], folder / "scontrol-nodes.txt")
    except ToolError as error:
        cut = str(error)
    if cut:
        found.gaps.append(Unknown("the nodes of the job", cut))


def _is_named(text: str) -> bool:
    return text not in ("", "(null)", "None", "None assigned", "N/A", "Unknown")


def _logs(job: str, facts: list[dict[str, str]], found: Fetched) -> None:
    """The job's output files, what lies beside them under its number, and the job folder of aidiag."""
    folders: dict[Path, None] = {}
    logs: dict[Path, None] = {}
    for one in facts:
        for name in ("StdOut", "StdErr"):
            if not _is_named(one.get(name, "")) or one[name] == "/dev/null":
                continue
            path = Path(one["WorkDir"], one[name]) if _is_named(one.get("WorkDir", "")) else Path(one[name])
            folders[path.parent] = None
            if path.is_file() and not path.is_symlink():
                logs[path] = None
            elif path.is_symlink():
                found.gaps.append(Unknown(shown(path), f"the {name} of the job is a link", "give its target as a path"))
            elif not any(gap.what == shown(path) for gap in found.gaps):
                host = one.get("BatchHost") or one.get("NodeList", "")
                remedy = f"copy it from {host}, and give it as a path" if _is_named(host) else "give it as a path"
                found.gaps.append(Unknown(shown(path), f"the {name} of the job is not on this host", remedy))
        if _is_named(one.get("WorkDir", "")):
            folders[Path(one["WorkDir"])] = None
    number = re.split(r"[_+]", job)[0]
    for folder in folders:
        for path in _with_number(folder, number):
            if path.is_file():
                logs.setdefault(path)
            elif path.name == f"aidiag-{number}":
                found.paths.append(path)
    if len(logs) > FILES_CAP:
        found.gaps.append(Unknown("logs", f"{len(logs) - FILES_CAP} further files of the job are left out"))
    found.paths += list(logs)[:FILES_CAP]
    if not logs and not any("is not on this host" in gap.reason for gap in found.gaps):
        found.gaps.append(
            Unknown("the job's output", "Slurm does not tell where it lies", "give the log files as paths")
        )


def _with_number(folder: Path, number: str) -> list[Path]:
    """What lies in a folder under a name that holds the number of the job (`srun --output=%j-%t.log`)."""
    if len(number) < NUMBER_MIN_DIGITS:
        return []
    named = re.compile(rf"(?<!\d){number}(?!\d)")
    try:
        entries = [path for _, path in zip(range(FOLDER_ENTRIES_CAP), folder.iterdir(), strict=False)]
    except OSError:
        return []
    ours = (path for path in entries if named.search(path.name) and not path.is_symlink())
    return sorted(path for path in ours if path.is_dir() or _LOG.search(plain_name(path.name)))
