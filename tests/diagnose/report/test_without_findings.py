"""What a report says where no rule found a fault."""

from __future__ import annotations

import pytest

from aidiag.diagnose.report.model import UNRECOGNISED, JobFacts, Report, Unknown
from aidiag.diagnose.report.terminal import lines
from aidiag.diagnose.report.words import words


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (Report(), "nothing"),
        (Report(job=JobFacts(exit_status=0)), "nothing"),
        (Report(job=JobFacts(exit_status=2)), "unexplained"),
        (Report(unknown=(Unknown(UNRECOGNISED, "none of their lines is known"),)), "unrecognised"),
        (Report(unknown=(Unknown("logs", "the collector hangs"),)), "nothing"),
    ],
)
def test_no_finding_is_a_verdict_only_where_there_was_something_to_judge(report: Report, said: str) -> None:
    """A job that failed, and logs of which nothing was recognised, are not called healthy."""
    assert words("en")[said] in [line for line, _ in lines(report)]
