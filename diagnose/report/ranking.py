"""`--why`: how the causes of a report were ranked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from aidiag.diagnose.report.escape import one_line
from aidiag.diagnose.report.model import Report
from aidiag.diagnose.report.terminal import blamed
from aidiag.rules.causes import Bearing, Links, bearing, open_questions
from aidiag.rules.finding import Finding
from aidiag.rules.texts import ENGLISH, seconds

_WORDS: Mapping[str, Mapping[str, str]] = {
    "en": {
        "title": "How the causes were ranked",
        "nothing": "No rule found a fault, so there is nothing to rank.",
        "first": "first: {facts}",
        "further": "apart: {facts}",
        "unrelated": "no rule says that 1 leads to this: a fault of its own",
        "later": "1 can lead to this, but began {gap} later",
        "elsewhere": "1 can lead to this, but not at another place",
        "between": "what explains it is itself explained by 1",
        "explains": "explains, and so is ranked before:",
        "mechanism": "{what} is what such a fault leads to, {where}",
        "indirect": "by way of {others}",
        "after": "seen {gap} later",
        "before": "seen {gap} earlier, which is within what clocks and buffers are trusted",
        "anytime": "seen {gap} earlier, as its first sign",
        "timeless": "times are not known",
        "anywhere": "anywhere in the job",
        "same": "at the same {kind}: {name}",
        "decide": "Only one of these can be true. What would decide:",
        "confidence": "confidence",
        "no_time": "no time in the logs",
        "nobody": "nobody blamed",
    },
    "zh": {
        "title": "原因排序的依据",
        "nothing": "没有规则发现故障，因此无需排序。",
        "first": "居首：{facts}",
        "further": "另列：{facts}",
        "unrelated": "没有规则表明 1 会导致此项：属于独立的故障",
        "later": "1 可能导致此项，但它晚开始了 {gap}",
        "elsewhere": "1 可能导致此项，但不会发生在别处",
        "between": "解释此项的故障本身由 1 解释",
        "explains": "解释了以下各项，因此排在它们之前：",
        "mechanism": "此类故障会导致 {what}，{where}",
        "indirect": "经由 {others}",
        "after": "晚 {gap} 出现",
        "before": "早 {gap} 出现，在时钟与缓冲的可信误差之内",
        "anytime": "早 {gap} 出现，是其先兆",
        "timeless": "时间未知",
        "anywhere": "在作业的任何位置",
        "same": "在同一 {kind}：{name}",
        "decide": "以下各项只有一个为真。判定方法：",
        "confidence": "置信度",
        "no_time": "日志中没有时间",
        "nobody": "无责任方",
    },
}  # fmt: skip


def ranking(report: Report, links: Mapping[str, Links], language: str = ENGLISH) -> Iterator[str]:
    """Why each finding stands where it stands, by what the rules in force declare (`links`)."""
    say = {**_WORDS["en"], **_WORDS.get(language, {})}
    yield f"{say['title']}:"
    if not report.findings:
        yield f"  {say['nothing']}"
    for position, root in enumerate(report.findings, 1):
        yield one_line(f"  {position}. {root.title} ({root.rule})")
        place = say["first" if position == 1 else "further"]
        yield one_line(f"     {place.format(facts=_facts(root, say))}")
        if position > 1:
            yield one_line(f"     {_apart(report.findings[0], root, links, say)}")
        explained = [other for other in report.consequences if other.explained_by == root.id]
        if explained:
            yield f"     {say['explains']}"
        for other in explained:
            yield one_line(f"       - {other.title} ({other.rule}): {_because(root, other, explained, links, say)}")
    questions = open_questions(report.findings, links, language)
    if questions:
        yield f"  {say['decide']}"
    for question in questions:
        yield one_line(f"     {question.what}: {question.decide}")


def _facts(finding: Finding, say: Mapping[str, str]) -> str:
    since = say["no_time"]
    if finding.since is not None:
        since = datetime.fromtimestamp(finding.since).strftime("%Y-%m-%d %H:%M:%S")
    who = blamed(finding.culprit) or say["nobody"]
    return f"{finding.severity}, {say['confidence']} {finding.confidence:.0%}, {since}, {who}"


def _apart(first: Finding, other: Finding, links: Mapping[str, Links], say: Mapping[str, str]) -> str:
    """Why the first root does not explain another one."""
    obstacle = bearing(first, other, links).obstacle
    gap = _gap(other, first)
    return say[obstacle or "between"].format(gap=seconds(abs(gap or 0.0)))


def _because(
    root: Finding, other: Finding, explained: list[Finding], links: Mapping[str, Links], say: Mapping[str, str]
) -> str:
    """Why a root explains a finding: by mechanism, place and time."""
    direct = bearing(root, other, links)
    if direct.obstacle is None:
        parts = [say["mechanism"].format(what=_what(direct, other), where=_where(direct, say))]
    else:
        steps = [one.title for one in explained if one is not other and bearing(one, other, links).obstacle is None]
        parts = [say["indirect"].format(others=", ".join(steps) or root.title)]
    gap = _gap(root, other)
    if gap is None:
        parts.append(say["timeless"])
    elif gap >= 0:
        parts.append(say["after"].format(gap=seconds(gap)))
    else:
        foretold = direct.entry is not None and direct.entry.anytime
        parts.append(say["anytime" if foretold else "before"].format(gap=seconds(-gap)))
    return "; ".join(parts)


def _what(direct: Bearing, other: Finding) -> str:
    return other.cause if direct.entry is None else direct.entry.label


def _where(direct: Bearing, say: Mapping[str, str]) -> str:
    if direct.place is None:
        return say["anywhere"]
    kind, name = direct.place
    return say["same"].format(kind=kind, name=name)


def _gap(one: Finding, other: Finding) -> float | None:
    """How much later than one finding another one was seen, in seconds."""
    return None if one.since is None or other.since is None else other.since - one.since
