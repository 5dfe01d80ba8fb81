"""Broken rule files as findings, so that a rule that is not in force does not go unnoticed."""

from __future__ import annotations

from collections.abc import Iterable

from aidiag.rules.finding import Evidence, Finding, Step
from aidiag.rules.loading.errors import RuleError

RULE_ID = "rule_invalid"

_WORDS = {
    "en": (
        "A rule file is not in force",
        "{path} was left out: {message}.",
        "A rule that cannot be read is skipped, so that all others go on. What it looks for is not seen.",
        "Mend the file, and check it.",
    ),
    "zh": (
        "一个规则文件没有生效",
        "{path} 被跳过：{message}。",  # noqa: RUF001 - Chinese punctuation
        "无法读取的规则会被跳过，其他规则照常工作；它要找的问题不会被发现。",  # noqa: RUF001 - Chinese punctuation
        "修正文件并检查。",
    ),
}


def invalid_findings(errors: Iterable[RuleError], unix: float | None = None, language: str = "en") -> list[Finding]:
    """A finding for each file that was left out, with its first error. `unix` is the time of loading."""
    title, summary, why, do = _WORDS.get(language[:2], _WORDS["en"])
    found: dict[str, Finding] = {}
    for error in errors:
        words = {"path": error.path, "message": error.message}
        found.setdefault(
            error.path,
            Finding(
                id=f"{RULE_ID}//{error.path.replace('/', '_')}",
                cause=RULE_ID,
                rule=RULE_ID,
                severity="warning",
                confidence=1.0,
                title=title,
                summary=summary.format_map(words),
                culprit=None,
                since=unix,
                found_at=unix,
                evidence=(Evidence(error.path, None, str(error)),),
                why=why,
                remedy=(Step(" ".join(filter(None, (do, error.remedy))), f"aidiag rules lint {error.path}"),),
            ),
        )
    return list(found.values())
