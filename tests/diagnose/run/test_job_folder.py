from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from aidiag.collectors.collector import Context
from aidiag.collectors.live import LiveNode
from aidiag.collectors.observation import Event
from aidiag.collectors.process import ProcessCollector
from aidiag.collectors.process.ranks import RankProcess
from aidiag.diagnose.job.folder import HostFolder
from aidiag.diagnose.job.runs import read_runs
from aidiag.diagnose.run.speaker import SETTLE_SECONDS, Speaker

if TYPE_CHECKING:
    from tests.diagnose.run.conftest import Aidiag

ROOT = Path(__file__).resolve().parents[3]


def test_the_run_s_file_says_what_ran(aidiag: Aidiag) -> None:
    """Command (without secrets), place, processes, rank, times and version are in run-<pid>.json."""
    aidiag.environ.update(RANK="3", WORLD_SIZE="4", AIDIAG_JOB_ID="j1")
    aidiag.run("sh", "-c", "exit 2", "--api-key", "hunter2", "--token=hunter3")
    (run,) = aidiag.runs()

    assert ("sh", "-c", "exit 2", "--api-key", "…", "--token=…") == run.command
    assert (str(aidiag.folder), "j1", os.uname().nodename, 3) == (run.directory, run.job, run.host, run.rank)
    assert run.run is not None
    assert run.child is not None
    assert str(run.run.pid) == run.key
    assert run.ended is not None
    assert run.started <= run.ended
    assert b"hunter" not in aidiag.host.run(run.key).read_bytes()


def test_the_end_of_a_rank_by_a_signal_is_read_from_its_run(aidiag: Aidiag) -> None:
    """What `run` writes of a command that a signal ended is what the process collector tells of that rank."""
    aidiag.run("sh", "-c", "kill -SEGV $$")
    (run,) = aidiag.runs()
    assert run.child is not None
    assert (139, -11) == (run.exit_status, run.exit_code)

    rank = RankProcess("j", 0, "a", run.child.pid, run.child.start_ticks, run.child.namespace, attached_unix=1e12)
    context = Context(LiveNode(name="a"), host_folder=aidiag.host.path)
    collector = ProcessCollector(context, lambda: [rank])
    try:
        ends = [one for one in collector.collect() if isinstance(one, Event)]
    finally:
        collector.close()
    assert [(-11, "SIGSEGV")] == [(end.fields["exit_code"], end.fields["signal_name"]) for end in ends]


def test_two_runs_of_a_job_share_one_sidecar(aidiag: Aidiag) -> None:
    """As under `srun --ntasks=2`: two runs at a time, one sidecar, which ends after the last of them."""
    aidiag.environ["AIDIAG_JOB_ID"] = "two"
    wait = "while [ ! -e go ]; do sleep 0.01; done"
    runs = [aidiag.start("sh", "-c", f"touch up{number}; {wait}; exit {number}") for number in (1, 2)]
    while not all((aidiag.folder / f"up{number}").exists() for number in (1, 2)):
        assert all(run.poll() is None for run in runs)
    (aidiag.folder / "go").touch()

    assert [1, 2] == [run.wait(60) for run in runs]
    assert 1 == aidiag.sidecars_started()
    assert [1, 2] == sorted(run.exit_status or 0 for run in aidiag.runs())
    assert (aidiag.host.path.parent / "report.json").exists()


@pytest.mark.parametrize(
    ("first", "second", "folders"),
    [
        ([], [], 2),
        (["--nproc-per-node=2", "--master-port=1"], ["--nproc-per-node=2", "--master-port=2"], 2),
        (["--nnodes=2", "--master_port=1"], ["--nnodes", "2", "--master-port", "1"], 1),
        (["--nnodes=2", "--master-port=1"], ["--nnodes=2", "--master-port=2"], 2),
        (["--rank=0", "--dist-url=tcp://a:1"], ["--rank=1", "--dist-url=tcp://a:1"], 1),
        (["--rank=0", "--dist-url=tcp://a:1"], ["--rank=0", "--dist-url=tcp://a:2"], 2),
        (["--rank", "0"], ["--rank", "1"], 1),
    ],
)
def test_two_jobs_at_once_in_one_folder(
    aidiag: Aidiag, first: list[str], second: list[str], folders: int, wait_for: Callable[..., Any]
) -> None:
    """Each has a job folder and a sidecar of its own, unless both are launchers that meet at one place."""
    wait = 'echo "$AIDIAG_JOB_ID"; while [ ! -e go ]; do sleep 0.01; done'
    runs = [aidiag.start("sh", "-c", wait, "sh", *more, stdout=subprocess.PIPE) for more in (first, second)]
    wait_for(lambda: 2 == sum(run.child is not None for run in aidiag.runs()), "two runs at work")
    (aidiag.folder / "go").touch()
    ids = {run.communicate(timeout=60)[0].decode().strip() for run in runs}
    made = sorted(path.name for path in aidiag.folder.glob("aidiag-*"))

    assert folders == len(ids) == len(made)
    assert {f"aidiag-{job}" for job in ids} == set(made)
    assert all((aidiag.folder / name / "report.json").exists() for name in made)
    assert made[1:] == [f"{made[0]}-2"][: len(made) - 1]


@pytest.mark.parametrize(("ports", "folders"), [(("7", "7"), 1), (("7", "8"), 2), (("", ""), 1)])
def test_ranks_that_something_else_starts_meet_at_their_port(
    aidiag: Aidiag, ports: tuple[str, str], folders: int, wait_for: Callable[..., Any]
) -> None:
    """Ranks of one MASTER_PORT, or of none that is told, are of one job; those of another port are of another."""
    for rank, port in enumerate(ports):
        aidiag.environ.update(RANK=str(rank), WORLD_SIZE="2", MASTER_PORT=port)
        if not port:
            del aidiag.environ["MASTER_PORT"]
        aidiag.start("sh", "-c", "while [ ! -e go ]; do sleep 0.01; done")
    wait_for(lambda: 2 == sum(run.child is not None for run in aidiag.runs()), "two runs at work")
    (aidiag.folder / "go").touch()

    assert [0, 0] == [run.wait(60) for run in aidiag.processes]
    assert folders == len(list(aidiag.folder.glob("aidiag-*")))


def test_a_second_job_of_the_same_id_sets_the_first_aside(aidiag: Aidiag) -> None:
    """The same command started again in the same place: a folder with the new run only, the old one kept beside."""
    for status in (1, 2, 3, 4):
        aidiag.run("sh", "-c", f"exit {status}")
    earlier = sorted(aidiag.host.path.glob("earlier-*"))

    assert [4] == [run.exit_status for run in aidiag.runs()]
    assert 2 == len(earlier)
    assert (earlier[0] / "job-report.json").exists()
    assert 1 == aidiag.sidecars_started()


@pytest.mark.parametrize("place", ["/proc/none", "work/file/below"])
def test_a_place_that_cannot_be_written(aidiag: Aidiag, tmp_path: Path, place: str) -> None:
    """Training is sacred: the command runs with its status, the user reads why, and the folder is made in the user's
    state folder.
    """
    (aidiag.folder / "file").touch()
    ended = aidiag.run("sh", "-c", "echo trains; exit 8", options=["--out", str(tmp_path / place)])

    assert (8, b"trains\n") == (ended.returncode, ended.stdout)
    assert b"aidiag: no job folder in" in ended.stderr
    assert 1 == len(list((tmp_path / "home/.local/state/aidiag").glob("aidiag-*/*/run-*.json")))


def test_no_place_at_all(aidiag: Aidiag) -> None:
    """Where no folder can be made anywhere the command still runs, with the shim on its path."""
    del aidiag.environ["HOME"]
    ended = aidiag.run("sh", "-c", 'echo "$PYTHONPATH"; exit 8', options=["--out", "/proc/none"])

    assert 8 == ended.returncode
    assert ended.stdout.startswith(f"{ROOT}/trainer_shim/inject:".encode())
    assert b"the job runs without diagnosis" in ended.stderr


def test_out_chooses_the_place(aidiag: Aidiag, tmp_path: Path) -> None:
    """--out goes before AIDIAG_OUT, which goes before the working directory; the command learns the place."""
    aidiag.environ.update(AIDIAG_JOB_ID="j", AIDIAG_OUT=str(tmp_path / "variable"))
    first = aidiag.run("sh", "-c", 'echo "$AIDIAG_OUT"', options=["--out", "../option"])
    second = aidiag.run("sh", "-c", 'echo "$AIDIAG_OUT"')

    assert f"{tmp_path}/option\n".encode() == first.stdout.replace(b"work/../", b"")
    assert f"{tmp_path}/variable\n".encode() == second.stdout
    assert (tmp_path / "option/aidiag-j").is_dir()
    assert (tmp_path / "variable/aidiag-j").is_dir()
    assert [] == list(aidiag.folder.iterdir())


@pytest.mark.parametrize("job", ["x" * 5000, "../../escape", "a b/c\n\x1b[31m", ".", "ünï", "-rf"])
def test_strange_job_ids(aidiag: Aidiag, job: str) -> None:
    """Any job id gives one plain folder in the place meant for it."""
    aidiag.environ["AIDIAG_JOB_ID"] = job
    ended = aidiag.run("sh", "-c", 'printf %s "$AIDIAG_JOB_ID"; exit 1')
    (folder,) = aidiag.folder.iterdir()

    assert 1 == ended.returncode
    assert folder.name.startswith("aidiag-")
    assert len(folder.name) < 100
    assert [1] == [run.exit_status for run in aidiag.runs()]


def test_the_sidecar_s_options(aidiag: Aidiag) -> None:
    """Port and language are handed to the sidecar."""
    aidiag.run("true", options=["--port", "12345", "--lang", "zh"])

    assert "port 12345 lang zh" in aidiag.host.sidecar_log.read_text()


def test_a_checkpoint_signal_leaves_the_sidecar_alone(aidiag: Aidiag) -> None:
    """SIGUSR1 and SIGUSR2, which Slurm sends to all processes of a step, do not end it."""
    code = "kill -USR1 $(cat pid); kill -USR2 $(cat pid); sleep 0.5; grep State: /proc/$(cat pid)/status"
    wait = f"until cut -d' ' -f2 $AIDIAG_OUT/aidiag-*/*/sidecar.log | grep . >pid; do sleep 0.05; done; {code}"

    assert aidiag.run("sh", "-c", wait).stdout.split()[1] in (b"R", b"S", b"D")


FINDING = {
    "id": "input_bound/j/rank-0",
    "severity": "warning", "title": "Input bound", "summary": "rank 0 waits 70 % of the step", "rule": "input_bound",
    "why": "one worker\x1b[2J", "remedy": [{"do": "use more workers", "command": "num_workers=8"}], "explained_by": None,
}  # fmt: skip


def findings(*entries: dict[str, Any]) -> str:
    """The text of findings.ndjson."""
    return "".join(json.dumps(entry) + "\n" for entry in entries)


def test_findings_are_said_on_stderr(aidiag: Aidiag) -> None:
    """Warnings and notes of the sidecar appear with the prefix, made safe, in their last form; what is only for
    information does not, nor what another finding explains."""
    aidiag.environ["STAND_IN_FINDINGS"] = (
        findings(
            {"event": "note", "unix": 1, "text": "attached 2 of 2 ranks"},
            {"event": "raised", "unix": 2, "finding": FINDING},
            {
                "event": "raised",
                "unix": 3,
                "finding": {**FINDING, "id": "i", "severity": "info", "summary": "not shown"},
            },
            {
                "event": "raised",
                "unix": 3,
                "finding": {**FINDING, "id": "x", "explained_by": "x", "summary": "not shown"},
            },
            {"event": "raised", "unix": 3, "finding": {**FINDING, "id": "v", "summary": "a victim, not shown"}},
            {"event": "explained", "unix": 3, "finding": {**FINDING, "id": "v", "explained_by": "x"}},
            {
                "event": "changed",
                "unix": 4,
                "finding": {**FINDING, "severity": "critical", "summary": "ranks 0-7 wait"},
            },
            {"event": "cleared", "unix": 4, "finding": FINDING},
        )
        + "broken\n[]\n{}\n"
    )
    said = aidiag.run("sleep", "1").stderr.decode().splitlines()

    assert [line for line in said if "watching job" not in line and "report:" not in line] == [
        "aidiag: attached 2 of 2 ranks",
        "aidiag: critical: Input bound: ranks 0-7 wait [input_bound]",
        r"aidiag:   why: one worker\x1b[2J",
        "aidiag:   do: use more workers (num_workers=8)",
        "aidiag: over: rank 0 waits 70 % of the step",
    ]


def test_what_becomes_worse_is_said_again(tmp_path: Path) -> None:
    """A finding is said once it has waited for an explanation; what then becomes worse is said in one more line."""
    folder, said, now = HostFolder(tmp_path), list[str](), 100.0
    speaker = Speaker(folder, said.append, lambda: now)
    folder.findings.write_text(findings({"event": "raised", "unix": 2, "finding": FINDING}))
    speaker.follow()
    assert [] == said
    now += SETTLE_SECONDS
    speaker.follow()
    assert ["warning: Input bound: rank 0 waits 70 % of the step [input_bound]"] == said[:1]

    with open(folder.findings, "a") as stream:
        stream.write(findings({"event": "changed", "unix": 4, "finding": {**FINDING, "severity": "critical"}}))
    speaker.follow()
    assert ["now critical: Input bound: rank 0 waits 70 % of the step [input_bound]"] == said[3:]


def test_quiet_says_nothing(aidiag: Aidiag) -> None:
    """With --quiet stderr holds what the command wrote."""
    aidiag.environ["STAND_IN_FINDINGS"] = findings({"event": "raised", "unix": 2, "finding": FINDING})

    assert b"mine\n" == aidiag.run("sh", "-c", "echo mine >&2", options=["--quiet"]).stderr


def test_only_one_of_several_runs_speaks(aidiag: Aidiag) -> None:
    """Of two runs of a job on a host, each finding is said once."""
    aidiag.environ["AIDIAG_JOB_ID"] = "two"
    aidiag.environ["STAND_IN_FINDINGS"] = findings({"event": "raised", "unix": 2, "finding": FINDING})
    runs = [aidiag.start("sleep", "2", stderr=subprocess.PIPE) for _ in range(2)]
    said = b"".join(run.communicate(timeout=60)[1] for run in runs)

    assert 1 == said.count(b"rank 0 waits 70 %")


def test_our_lines_stand_between_the_commands_lines(aidiag: Aidiag) -> None:
    """A finding does not tear a line of the command that is not complete yet."""
    aidiag.environ["STAND_IN_FINDINGS"] = findings({"event": "raised", "unix": 2, "finding": FINDING})
    said = aidiag.run("sh", "-c", "printf half >&2; sleep 1.5; echo whole >&2").stderr

    assert b"half\naidiag: " in said


def test_the_report_is_copied(aidiag: Aidiag) -> None:
    """--report FILE holds the job's report, also where the status is not zero."""
    ended = aidiag.run("sh", "-c", "exit 3", options=["--report", "r.json"])

    assert 3 == ended.returncode
    assert b'{"schema":"aidiag.report/v1"}\n' == (aidiag.folder / "r.json").read_bytes()


def test_a_large_report_is_copied_whole(aidiag: Aidiag) -> None:
    """The merged report of a thousand hosts is larger than the other files of a folder."""
    aidiag.environ["STAND_IN_REPORT_BYTES"] = str(6 << 20)
    aidiag.run("true", options=["--report", "r.json"])

    assert 6 << 20 == (aidiag.folder / "r.json").stat().st_size


def test_a_report_that_cannot_be_written(aidiag: Aidiag) -> None:
    """The status stays the command's, and the user reads the reason."""
    ended = aidiag.run("true", options=["--report", "/proc/none/r.json"])

    assert 0 == ended.returncode
    assert b"/proc/none" in ended.stderr


@pytest.mark.live
def test_a_sidecar_that_never_ends_is_not_waited_for(aidiag: Aidiag) -> None:
    """`run` ends with its command's status, though the sidecar does not finish."""
    aidiag.environ["STAND_IN_NEVER_ENDS"] = "1"
    ended = aidiag.run("sh", "-c", "exit 5")
    os.kill(int(aidiag.host.sidecar_log.read_text().split()[1]), 9)

    assert 5 == ended.returncode
    assert b"no report yet" in ended.stderr


@pytest.mark.parametrize("sidecar", ["false", "/no/such/program", "sh -c 'kill -9 $$'"])
def test_a_sidecar_that_cannot_live(aidiag: Aidiag, sidecar: str) -> None:
    """The command does not notice; the user is told."""
    line = aidiag.line("sh", "-c", "echo on; exit 4")
    line[line.index("--sidecar-command") + 1] = sidecar
    ended = subprocess.run(line, env=aidiag.environ, cwd=aidiag.folder, capture_output=True, timeout=60, check=False)

    assert (4, b"on\n") == (ended.returncode, ended.stdout)
    assert b"aidiag: " in ended.stderr


HANGS = """
import sys, time
from aidiag.diagnose.run import clerk, launch
from aidiag.diagnose.run.task import Settings
clerk.prepare = lambda *_: time.sleep(1000)
launch.PREPARE_SECONDS = 0.3
launch.END_SECONDS = 0.3
sys.exit(launch.launch(sys.argv[1:], Settings()))
"""


def test_a_file_system_that_hangs(aidiag: Aidiag) -> None:
    """Where the job folder's file system does not answer the command starts after a while, and its output is shown."""
    line = [sys.executable, "-c", HANGS, "sh", "-c", "echo on; exit 4"]
    ended = subprocess.run(line, env=aidiag.environ, cwd=aidiag.folder, capture_output=True, timeout=60, check=False)

    assert (4, b"on\n") == (ended.returncode, ended.stdout)


def test_a_signal_while_the_folder_is_made(aidiag: Aidiag, wait_for: Callable[..., Any]) -> None:
    """Who ends `run` before the command has started ends it at once: the command never starts."""
    code = HANGS.replace("PREPARE_SECONDS = 0.3", "PREPARE_SECONDS = 60").replace(
        "import sys, time", "import os, sys, time"
    )
    code = code.replace("lambda *_: time.sleep(1000)", "lambda *_: (open('hangs', 'w').close(), time.sleep(1000))")
    run = subprocess.Popen([sys.executable, "-c", code, "touch", "started"], env=aidiag.environ, cwd=aidiag.folder)
    wait_for((aidiag.folder / "hangs").exists, "waits")
    run.terminate()

    assert 128 + 15 == run.wait(30)
    assert not (aidiag.folder / "started").exists()


BREAKS = """
import sys
from aidiag.diagnose.run import {module}
from aidiag.diagnose.run.launch import launch
from aidiag.diagnose.run.task import Settings
def broken(*_, **__): raise {error}("planted")
{module}.{name} = broken
sys.exit(launch(sys.argv[1:], Settings()))
"""


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("launch", "_task"), ("launch", "open_streams"), ("launch", "note_signals"), ("launch", "Relay"), ("launch", "Guard"),
        ("keeper", "start"), ("keeper", "_keep_only"), ("keeper", "Clerk"), ("keeper", "Pump"), ("keeper", "Capture"),
        ("clerk", "prepare"), ("clerk", "run_file"), ("clerk", "Watcher"), ("clerk", "Speaker"), ("clerk", "additions"),
        ("clerk", "read_runs"), ("prepare", "make"), ("prepare", "set_aside"), ("prepare", "claim_key"), ("prepare", "runs_at_work"), ("prepare", "write_run"),
        ("watcher", "lock"), ("speaker", "lock"), ("capture", "Thread"), ("pump", "Event"), ("keeper", "note_signals"), ("guard", "waiting_bytes"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("error", ["OSError", "RuntimeError"])
def test_whatever_breaks_the_command_runs(aidiag: Aidiag, module: str, name: str, error: str) -> None:
    """A fault planted in any part of aidiag: the command's output and status are as ever."""
    code = BREAKS.format(module=module, name=name, error=error)
    line = [sys.executable, "-c", code, "sh", "-c", "echo on; echo mine >&2; exit 4"]
    ended = subprocess.run(line, env=aidiag.environ, cwd=aidiag.folder, capture_output=True, timeout=60, check=False)

    assert (4, b"on\n") == (ended.returncode, ended.stdout)
    assert b"mine\n" in ended.stderr
    assert b"Traceback" not in ended.stderr


@pytest.mark.parametrize("part", ["capture.Capture.put", "pump.Pump._read", "pump.Display.write"])
def test_a_broken_pump_is_replaced(aidiag: Aidiag, part: str) -> None:
    """A fault while output is moved, in the first keeper, costs what it had in its hands; the next one goes on."""
    module, kind, name = part.split(".")
    code = BREAKS.replace("{module}.{name} = broken", "whole = {module}.{kind}.{name}\n{module}.{kind}.{name} = broken")
    code = code.replace(
        'raise {error}("planted")',
        "\n    if os.path.exists('broken'): return whole(*_)\n    open('broken', 'w').close(); raise {error}('planted')",
    )
    code = code.replace("import sys", "import os, sys").format(module=module, kind=kind, name=name, error="ValueError")
    wait = "while [ ! -e broken ]; do sleep 0.05; done; sleep 0.5"
    line = [sys.executable, "-c", code, "sh", "-c", f"echo lost; {wait}; echo on; exit 4"]
    ended = subprocess.run(line, env=aidiag.environ, cwd=aidiag.folder, capture_output=True, timeout=60, check=False)

    assert 4 == ended.returncode
    assert ended.stdout.endswith(b"on\n")
    assert (aidiag.folder / "broken").exists()


def test_a_run_within_a_run(aidiag: Aidiag) -> None:
    """The inner one joins the job of the outer one: one folder, one sidecar, the inner command's status."""
    inner = aidiag.line("sh", "-c", "echo inner; exit 3")
    ended = aidiag.run(*inner)

    assert (3, b"inner\n") == (ended.returncode, ended.stdout)
    assert [3, 3] == [run.exit_status for run in aidiag.runs()]
    assert 1 == aidiag.sidecars_started()


def test_run_files_name_existing_captures(aidiag: Aidiag) -> None:
    """What a run's file names as captures is there, also where nothing was printed."""
    aidiag.run("true")

    assert all((aidiag.host.path / file).exists() for run in read_runs(aidiag.host) for file in run.captures.values())
