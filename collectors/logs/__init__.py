"""Logs: from bytes to events.

reading, collector   a whole log after the fact; logs that grow (files, tail)
stream               one log: lines, who printed them, blocks of several lines
scanner              blocks of lines to the lines with messages (lines, prefilter)
catalogue            what messages there are (messages/, pattern, gate, compiled)
attribution          whose a message is (prefix, stamps)
kinds                what can happen
"""

from __future__ import annotations

from aidiag.collectors.logs.collector import LogsCollector
from aidiag.collectors.logs.reading import read_lines, read_log

__all__ = ["LogsCollector", "read_lines", "read_log"]
