"""A small program in the place of the sidecar: keeps the lock, waits for the runs to end, and leaves a report.

STAND_IN_FINDINGS holds lines that it writes into findings.ndjson at once; with STAND_IN_NEVER_ENDS it stays;
STAND_IN_REPORT_BYTES is the least size of its report.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

from aidiag.diagnose.job.folder import HostFolder, write_atomically
from aidiag.diagnose.job.runs import SidecarFile, is_over, read_runs, write_sidecar


def main() -> None:
    """Live as a sidecar does."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--job", required=True)
    parser.add_argument("--host-folder", type=Path, required=True)
    parser.add_argument("--lock-fd", type=int, required=True)
    parser.add_argument("--port", type=int)
    parser.add_argument("--lang")
    options = parser.parse_args()
    os.fstat(options.lock_fd)
    folder = HostFolder(options.host_folder)
    print(f"started {os.getpid()} port {options.port} lang {options.lang}", flush=True)
    facts = SidecarFile(os.getpid(), folder.path.name, options.job, time.time(), port=9877, url="http://127.0.0.1:9877")
    write_sidecar(folder, facts)
    if os.environ.get("STAND_IN_FINDINGS"):
        folder.findings.write_text(os.environ["STAND_IN_FINDINGS"])
    while os.environ.get("STAND_IN_NEVER_ENDS") or not all(is_over(run, time.time()) for run in read_runs(folder)):
        time.sleep(0.02)
    report = b'{"schema":"aidiag.report/v1"}\n'.ljust(int(os.environ.get("STAND_IN_REPORT_BYTES", "0")))
    write_atomically(folder.path.parent / "report.json", report)
    write_sidecar(folder, SidecarFile(facts.pid, facts.host, facts.job, facts.started, state="finished"))


if __name__ == "__main__":
    main()
