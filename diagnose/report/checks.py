"""Check verdicts for people and machines: a table, JSON, JUnit and Prometheus text, and the exit status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

from aidiag.diagnose.report.escape import one_line, printable
from aidiag.diagnose.report.model import Check, CheckStatus, Report, encode

ORDER: tuple[CheckStatus, ...] = ("critical", "warning", "unknown", "ok", "skipped")
STYLES = {"critical": "bold red", "warning": "bold yellow", "unknown": "magenta", "ok": "green", "skipped": "dim"}
CODES = {"ok": 0, "skipped": 0, "warning": 1, "critical": 2, "unknown": 3}


def exit_status(checks: Iterable[Check], fail_on: str, policy: str) -> int:
    """The exit status: with `nagios` 0, 1, 2 or 3 by the worst of ok, unknown, warning, critical. What is waived does not
    count.
    """
    seen = {check.status for check in checks if not check.waived}
    if "critical" in seen:
        return 2
    if "warning" in seen and (policy == "nagios" or fail_on in ("warning", "unknown")):
        return 1
    if "unknown" in seen and (policy == "nagios" or fail_on == "unknown"):
        return 3
    return 0


def render(report: Report, form: str, stream: TextIO) -> None:
    """Print the checks of a report in one of the formats text, json, junit, prom."""
    if form == "json":
        stream.write(encode(report).decode())
    elif form == "junit":
        stream.writelines(f"{line}\n" for line in junit(report.checks))
    elif form == "prom":
        stream.writelines(f"{line}\n" for line in prometheus(report.checks, report.made_at))
    else:
        _text(report, stream)


def _text(report: Report, stream: TextIO) -> None:
    found = list(text(report))
    if stream.isatty():
        from rich.console import Console
        from rich.text import Text

        console = Console(file=stream, highlight=False, soft_wrap=True)
        for line, style in found:
            console.print(Text(line, style=style))
    else:
        stream.writelines(f"{line}\n" for line, _ in found)


def text(report: Report) -> Iterator[tuple[str, str]]:
    """Lines and their styles: one line a problem with evidence and remedy, one line for all that is well."""
    checks = sorted(report.checks, key=lambda check: (ORDER.index(check.status), check.id, check.target))
    counts = Counter(check.status for check in checks if not check.waived)
    waived = [check for check in checks if check.waived]
    for check in checks:
        if not check.waived and check.status in ("critical", "warning", "unknown"):
            yield from _problem(check)
    for check in waived:
        said = f"waived    {check.id} {check.target} {check.waived} (else {check.status}: {check.reason})"
        yield one_line(said), STYLES["skipped"]
    skipped: dict[str, list[str]] = {}
    for check in checks:
        if check.status == "skipped":
            skipped.setdefault(check.reason or "not here", []).append(check.id)
    for reason, ids in skipped.items():
        names = ", ".join(dict.fromkeys(ids))
        yield one_line(f"skipped   {names}: {reason}"), STYLES["skipped"]
    for gap in report.unknown:
        remedy = f" -> {gap.remedy}" if gap.remedy else ""
        yield one_line(f"not seen  {gap.what}: {gap.reason}{remedy}"), STYLES["unknown"]
    words = [f"{counts[status]} {status}" for status in ORDER if counts[status]]
    words += [f"{len(waived)} waived"] if waived else []
    summary = ", ".join(words) or "no check was made"
    worst = next((status for status in ORDER if counts[status]), "ok")
    yield one_line(f"{', '.join(report.job.hosts)}: {summary}"), STYLES[worst]


def _problem(check: Check) -> Iterator[tuple[str, str]]:
    said = check.reason
    if check.observed and check.observed not in said:
        said += f" (observed {check.observed}"
        said += f", expected {check.expected})" if check.expected else ")"
    yield one_line(f"{check.status:<9} {check.id} {check.target}: {said}"), STYLES[check.status]
    if check.remedy:
        yield one_line(f"          -> {check.remedy}"), ""


def junit(checks: Sequence[Check]) -> Iterator[str]:
    """JUnit XML: a test case for each verdict; critical and warning are failures, unknown is an error, and what is waived is
    skipped.
    """
    from xml.sax.saxutils import escape  # brings the whole of urllib along

    statuses = ["skipped" if check.waived else check.status for check in checks]
    failures = statuses.count("critical") + statuses.count("warning")
    errors, skipped = statuses.count("unknown"), statuses.count("skipped")
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield (
        f'<testsuite name="aidiag check" tests="{len(checks)}" failures="{failures}" errors="{errors}" '
        f'skipped="{skipped}">'
    )
    for check, status in zip(checks, statuses, strict=True):
        head = f"  <testcase classname={_attribute(check.id)} name={_attribute(f'{check.id} {check.target}')}"
        message = _attribute(f"{f'waived {check.waived}: ' if check.waived else ''}{check.status}: {check.reason}")
        body = escape(printable(f"{check.reason}\n{check.remedy}".strip()))
        match status:
            case "critical" | "warning":
                yield f"{head}><failure type={_attribute(status)} message={message}>{body}</failure></testcase>"
            case "unknown":
                yield f"{head}><error type='unknown' message={message}>{body}</error></testcase>"
            case "skipped":
                yield f"{head}><skipped message={message}/></testcase>"
            case _:
                yield f"{head}/>"
    yield "</testsuite>"


def prometheus(checks: Sequence[Check], unix: float | None) -> Iterator[str]:
    """Text for node_exporter's textfile collector: 0 ok, skipped or waived, 1 warning, 2 critical, 3 unknown."""
    yield "# HELP aidiag_check_status 0 ok, skipped or waived, 1 warning, 2 critical, 3 unknown"
    yield "# TYPE aidiag_check_status gauge"
    for check in checks:
        labels = f'check="{_label(check.id)}",target="{_label(check.target)}"'
        yield f"aidiag_check_status{{{labels}}} {0 if check.waived else CODES[check.status]}"
    if unix is not None:
        yield "# HELP aidiag_check_last_run_timestamp_seconds When the checks were made"
        yield "# TYPE aidiag_check_last_run_timestamp_seconds gauge"
        yield f"aidiag_check_last_run_timestamp_seconds {unix}"


def _attribute(value: str) -> str:
    from xml.sax.saxutils import quoteattr

    return quoteattr(one_line(value))


def _label(value: str) -> str:
    return one_line(value).replace("\\", r"\\").replace('"', r"\"")
