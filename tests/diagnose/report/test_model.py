"""The report as JSON: the committed schema, round trips, and clear refusals."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from aidiag.diagnose.report import model
from aidiag.diagnose.report.model import Check, JobFacts, RankRow, Report, ReportError, Unknown, decode, encode
from aidiag.rules.finding import Culprit, Evidence, Finding, Step

FINDING = Finding(
    id="input_bound:j:0",
    cause="util_input_bound",
    rule="input_bound",
    severity="warning",
    confidence=0.9,
    title="Input bound",
    summary="61 % of the step waits",
    culprit=Culprit("rank", (0,), ("node-a",)),
    since=1.0,
    found_at=2.0,
    evidence=(Evidence("node-a/evidence.txt", 3, "61 %"),),
    why="because",
    remedy=(Step("more workers", "num_workers=4"),),
)
REPORT = Report(
    version="0.1.0",
    made_at=3.0,
    job=JobFacts("j", ("node-a",), 2, "train.py", 0),
    findings=(FINDING,),
    unknown=(Unknown("gpu", "no driver"),),
    ranks=(RankRow(0, "node-a", "training"),),
    checks=(Check("dev-shm", "ok"),),
)


def test_committed_schema_is_the_one_of_the_code() -> None:
    """schema.json is made from the dataclasses and committed; `python -m aidiag.diagnose.report.model` renews it."""
    committed = json.loads((Path(model.__file__).with_name("schema.json")).read_text())

    assert committed == json.loads(json.dumps(model.json_schema()))


def test_report_fits_its_schema() -> None:
    """What is written passes a JSON schema validator, empty reports too."""
    for report in (REPORT, Report()):
        jsonschema.validate(json.loads(encode(report)), dict(model.json_schema()))


@pytest.mark.parametrize("change", [{"schema": "other/v1"}, {"findings": [{"id": 1}]}, {"ranks": None}])
def test_schema_refuses_what_is_no_report(change: dict[str, object]) -> None:
    """The schema is strict enough to refuse other documents."""
    document = json.loads(encode(REPORT)) | change

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, dict(model.json_schema()))


def test_schema_wants_every_list() -> None:
    """A consumer may rely on every list being there."""
    document = json.loads(encode(REPORT))
    del document["consequences"]

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, dict(model.json_schema()))


def test_round_trip() -> None:
    """Reading what was written gives the same report."""
    assert REPORT == decode(encode(REPORT))


def test_contract_fields_of_a_finding() -> None:
    """A finding in JSON has exactly the fields that others build on."""
    finding = json.loads(encode(REPORT))["findings"][0]

    assert {
        "id", "cause", "rule", "severity", "confidence", "title", "summary", "culprit", "since", "found_at",
        "evidence", "why", "remedy", "explains", "explained_by",
    } == set(finding)  # fmt: skip
    assert {"kind", "ranks", "hosts", "targets"} == set(finding["culprit"])
    assert {"source", "line", "text"} == set(finding["evidence"][0])
    assert {"do", "command", "confirm"} == set(finding["remedy"][0])


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe", b'{"schema":"aidiag.report/v2"}', b"[" * 100_000])
def test_other_files_are_refused_by_name(text: bytes) -> None:
    """What is not a report is refused with the name of the file and no traceback."""
    with pytest.raises(ReportError, match=r"node-a/report\.json: not a report"):
        decode(text, name="node-a/report.json")
