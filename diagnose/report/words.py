"""The fixed words of reports by language key. English is complete; others fall back to it word by word."""

from __future__ import annotations

import os
from collections.abc import Mapping

WORDS: Mapping[str, Mapping[str, str]] = {
    "en": {
        "nothing": "Nothing is wrong as far as can be seen.",
        "unexplained": "The job failed, and nothing that was seen says why: look at the last lines that each rank printed.",
        "unrecognised": "Nothing was recognised: that is no verdict.",
        "findings": "What is wrong",
        "also": "Consequences of the above",
        "because": "because of",
        "decide": "Only one of these can be true; this would decide",
        "since": "since",
        "unknown": "What could not be seen",
        "ranks": "Ranks",
        "nccl": "NCCL",
        "differs": "differs",
        "set": "set",
        "channels": "channels",
        "devices": "devices",
        "over": "to peers over",
        "started_over": "start-up over",
        "why": "Why",
        "evidence": "Evidence",
        "do": "What to do",
        "confirm": "to confirm",
        "culprit": "Culprit",
        "confidence": "confidence",
        "no_sign": "No sign of {who} on any host that has reported.",
        "seconds": "s",
        "more": "and {count} more",
        "job": "job",
        "rank": "rank",
        "host": "host",
        "state": "state",
        "phase": "phase",
        "steps": "steps",
        "step": "step",
        "own": "own time",
        "warning": "WARNING",
        "critical": "CRITICAL",
        "info": "info",
    },
    "zh": {
        "nothing": "就目前所见，没有发现问题。",
        "unexplained": "作业失败，但所见信息无法说明原因：请查看各 rank 打印的最后几行。",
        "unrecognised": "没有识别出任何内容：这不是结论。",
        "findings": "问题所在",
        "also": "由上述问题引起的后果",
        "because": "起因：",
        "decide": "以下各项只有一个为真，判定方法",
        "since": "始于",
        "unknown": "无法观察到的部分",
        "ranks": "各 rank 状态",
        "nccl": "NCCL 配置",
        "differs": "不一致",
        "set": "设置",
        "channels": "个通道",
        "devices": "设备",
        "over": "与同伴通信经",
        "started_over": "启动经",
        "why": "原因",
        "evidence": "证据",
        "do": "处理办法",
        "confirm": "确认方法",
        "culprit": "责任方",
        "confidence": "置信度",
        "no_sign": "所有已上报的主机上都没有 {who} 的任何迹象。",
        "seconds": "秒",
        "more": "另有 {count} 项",
        "job": "作业",
        "rank": "rank",
        "host": "主机",
        "state": "状态",
        "phase": "阶段",
        "steps": "步数",
        "step": "单步",
        "own": "自身耗时",
        "warning": "警告",
        "critical": "严重",
        "info": "提示",
    },
}


def words(lang: str) -> Mapping[str, str]:
    """The words of a language, English where it has none."""
    return {**WORDS["en"], **WORDS.get(lang, {})}


def language(asked: str = "", environ: Mapping[str, str] = os.environ) -> str:
    """The language key: what was asked for, else that of the locale (LC_ALL, LC_MESSAGES, LANG), else English."""
    locale = asked or environ.get("LC_ALL") or environ.get("LC_MESSAGES") or environ.get("LANG") or "en"
    key = locale.split(".")[0].split("_")[0].split("-")[0].lower()
    return key if key.isalpha() and len(key) in (2, 3) else "en"
