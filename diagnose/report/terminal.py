"""A report as text: coloured on a terminal, plain when piped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TextIO
from unicodedata import east_asian_width

from aidiag.diagnose.report.escape import one_line
from aidiag.diagnose.report.model import UNRECOGNISED, RankRow, Report
from aidiag.diagnose.report.nccl_lines import nccl_lines
from aidiag.diagnose.report.words import words
from aidiag.rules.finding import Culprit, Finding
from aidiag.rules.places import ranges

EVIDENCE_SHOWN = 5
RANKS_SHOWN = 16
STYLES = {"critical": "bold red", "warning": "bold yellow", "info": "bold blue"}

TO_COPY = ("cyan", "dim")
"""Styles of commands and of lines of logs, which are not broken at the edge of the terminal."""

Line = tuple[str, str]
"""Text and rich style of one line."""


def lines(report: Report, *, lang: str = "en", why: bool = True) -> Iterator[Line]:
    """The report line by line. All foreign text is escaped."""
    say = words(lang)
    yield _heading(report), "bold"
    yield "", ""
    if not report.findings:
        yield _without_findings(report, say)
    for number, finding in enumerate(report.findings, 1):
        yield from _finding(number, finding, say, why=why)
    asked = [gap for gap in report.unknown if gap.what == gap.reason]
    if asked:
        yield f"{say['decide']}:", "bold"
        for question in asked:
            yield one_line(f"  - {question.what}"), ""
            yield one_line(f"    {question.remedy}"), ""
        yield "", ""
    if report.consequences:
        yield f"{say['also']}:", "bold"
        titles = {finding.id: finding.title for finding in (*report.findings, *report.consequences)}
        for finding in report.consequences:
            cause = titles.get(finding.explained_by or "", "") if len(report.findings) > 1 else ""
            yield one_line(f"  - {finding.summary}" + (f" ({say['because']} {cause})" if cause else "")), ""
        yield "", ""
    if report.ranks:
        yield f"{say['ranks']}:", "bold"
        yield from _ranks(report.ranks, say)
        yield "", ""
    if report.nccl is not None:
        yield f"{say['nccl']}:", "bold"
        yield from nccl_lines(report.nccl, say)
        yield "", ""
    unseen = [gap for gap in report.unknown if gap not in asked]
    if unseen:
        yield f"{say['unknown']}:", "bold"
        for gap in unseen:
            remedy = f" -> {gap.remedy}" if gap.remedy else ""
            yield one_line(f"  - {gap.what}: {gap.reason}{remedy}"), "dim"
        yield "", ""


def render(report: Report, stream: TextIO, *, lang: str = "en", why: bool = True) -> None:
    """Print the report on `stream`."""
    if stream.isatty():
        from rich.console import Console
        from rich.padding import Padding
        from rich.text import Text

        console = Console(file=stream, highlight=False)
        for text, style in lines(report, lang=lang, why=why):
            if style in TO_COPY:
                console.print(Text(text, style=style), soft_wrap=True)
            else:
                content = text.lstrip()
                console.print(Padding(Text(content, style=style), (0, 0, 0, len(text) - len(content)), expand=False))
    else:
        for text, _ in lines(report, lang=lang, why=why):
            stream.write(text.encode(stream.encoding or "utf-8", "backslashreplace").decode(stream.encoding or "utf-8"))
            stream.write("\n")


def blamed(culprit: Culprit | None) -> str:
    """Who is to blame, in a few words: `rank 1 on node-b`, `mlx5_0:1 on node-a`; empty where nobody is."""
    if culprit is None:
        return ""
    where = f" on {_some(culprit.hosts)}" if culprit.hosts else ""
    if culprit.targets:
        ranks = f" (rank {_some(tuple(map(str, culprit.ranks)))})" if culprit.ranks else ""
        return f"{_some(culprit.targets)}{where}{ranks}"
    if culprit.ranks:
        return f"rank{'s' if len(culprit.ranks) > 1 else ''} {_some(tuple(map(str, culprit.ranks)))}{where}"
    return f"host {_some(culprit.hosts)}" if culprit.hosts else culprit.kind


def _some(names: tuple[str, ...], most: int = 8) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _without_findings(report: Report, say: Mapping[str, str]) -> Line:
    """What can be said where no rule found a fault: that is no verdict on a job that failed, or on what nobody could read."""
    if report.job.exit_status:
        return say["unexplained"], "yellow"
    if any(gap.what == UNRECOGNISED for gap in report.unknown):
        return say["unrecognised"], "yellow"
    return say["nothing"], "green"


def _heading(report: Report) -> str:
    job = report.job
    parts = ["aidiag"]
    if job.id:
        parts.append(f"job {job.id}")
    if job.hosts:
        parts.append(f"{'hosts' if len(job.hosts) > 1 else 'host'} {_some(job.hosts)}")
    if job.world_size:
        parts.append(f"{job.world_size} ranks")
    if job.exit_status is not None:
        parts.append(f"exit status {job.exit_status}")
    return one_line(" · ".join(parts))


def _finding(number: int, finding: Finding, say: Mapping[str, str], *, why: bool) -> Iterator[Line]:
    word = say.get(finding.severity, finding.severity)
    yield one_line(f"{number}. [{word}] {finding.title}"), STYLES.get(finding.severity, "bold")
    yield one_line(f"   {finding.summary}"), ""
    who = blamed(finding.culprit)
    since = (
        "" if finding.since is None else f" · {say['since']} {datetime.fromtimestamp(finding.since):%Y-%m-%d %H:%M:%S}"
    )
    yield one_line(
        f"   {say['culprit']}: {who or '-'} · {finding.cause} · {say['confidence']} {finding.confidence:.0%}{since}"
    ), ""  # fmt: skip
    if why and finding.why:
        yield one_line(f"   {say['why']}: {finding.why}"), ""
    if finding.evidence:
        yield f"   {say['evidence']}:", ""
        for item in finding.evidence[:EVIDENCE_SHOWN]:
            place = f"{item.source}:{item.line}" if item.line is not None else item.source
            yield one_line(f"     {place}: {item.text}"), "dim"
        if len(finding.evidence) > EVIDENCE_SHOWN:
            yield f"     {say['more'].format(count=len(finding.evidence) - EVIDENCE_SHOWN)}", "dim"
    if finding.remedy:
        yield f"   {say['do']}:", ""
        for step, remedy in enumerate(finding.remedy, 1):
            yield one_line(f"     {step}. {remedy.do}"), ""
            if remedy.command:
                for command in remedy.command.splitlines():
                    yield one_line(f"          {command}"), "cyan"
            if remedy.confirm:
                yield one_line(f"        {say['confirm']}: {remedy.confirm}"), ""
    yield "", ""


def _ranks(rows: tuple[RankRow, ...], say: Mapping[str, str]) -> Iterator[Line]:
    table = [(say["rank"], say["host"], say["state"], say["phase"], say["steps"], say["step"], say["own"], "")]
    together = _together(rows) if len(rows) > RANKS_SHOWN else [((row.rank,), row) for row in rows]
    for ranks, row in together[:RANKS_SHOWN]:
        table.append(
            (
                ranges(ranks),
                row.host or "?",
                row.state,
                row.phase or "",
                "" if row.steps is None else str(row.steps),
                _milliseconds(row.step_seconds),
                _milliseconds(row.own_seconds),
                row.detail,
            )
        )
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    for line in table:
        yield (
            one_line("  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()),
            "",
        )
    if left := sum(len(ranks) for ranks, _ in together[RANKS_SHOWN:]):
        yield f"  {say['more'].format(count=left)}", ""


def _together(rows: tuple[RankRow, ...]) -> list[tuple[tuple[int, ...], RankRow]]:
    """Of many ranks those together that stand at the same point; the smallest groups, which differ from the rest, first."""
    groups: dict[tuple[object, ...], list[RankRow]] = {}
    for row in rows:
        groups.setdefault((row.state, row.phase, row.steps, row.step_seconds, row.own_seconds, row.detail), []).append(
            row
        )
    ordered = sorted(groups.values(), key=lambda group: (len(group), group[0].rank))
    return [(tuple(row.rank for row in group), replace(group[0], host=_hosts(group))) for group in ordered]


def _hosts(rows: list[RankRow]) -> str:
    names = sorted({row.host for row in rows if row.host})
    return ", ".join(names) if len(names) < 3 else f"{names[0]} … {names[-1]}"


def _width(text: str) -> int:
    """Terminal columns of a text: East Asian characters take two."""
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)


def _milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1000:.0f} ms" if seconds < 10 else f"{seconds:.1f} s"
