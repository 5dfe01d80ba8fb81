"""The built-in rules: their own tests, and what every one of them must have."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import yaml

from aidiag.collectors.signal import Registry
from aidiag.rules.cause_labels import cause_labels
from aidiag.rules.loader import BUILT_IN, load_rules
from aidiag.rules.model import Rule
from aidiag.rules.rule_tests import RuleTest, read_tests
from aidiag.rules.selftest import outcome, run_test

FILES = sorted(BUILT_IN.rglob("*.yaml"))
ROOT = Path(__file__).resolve().parents[2]

LABELS = [
    "net_wrong_interface",
    "net_hostname_loopback",
    "net_firewall",
    "port_in_use",
    "rank_missing",
    "world_size_mismatch",
    "nccl_mismatch",
    "net_plugin_misconfig",
    "driver_cuda_mismatch",
    "fabric_manager_down",
    "gpu_assignment",
    "shm_too_small",
    "p2p_acs_iommu",
    "p2p_driver_unsupported",
    "p2p_link_fault",
    "ib_gid_index_wrong",
    "ib_memlock_limit",
    "mtu_mismatch",
    "roce_not_lossless",
    "ib_link_down",
    "ib_nic_unreachable",
    "gdr_peermem_missing",
    "comm_socket_fallback",
    "peer_crashed",
    "collective_mismatch",
    "uneven_inputs",
    "slow_rank_section",
    "external_signal",
    "app_cuda_assert",
    "oom_capacity",
    "oom_fragmentation",
    "oom_other_process",
    "oom_graph_leak",
    "oom_logits_spike",
    "oom_eval_accumulation",
    "oom_host_killed",
    "fd_limit",
    "fork_unsafe",
    "util_input_bound",
    "util_small_batch",
    "util_host_sync",
    "util_cpu_starved",
    "util_hw_degraded",
    "gpu_ecc_error",
    "gpu_lost",
    "rendezvous_mismatch",
    "rank_stopped",
    "rank_killed",
    "loader_worker_died",
    "straggler",
    "straggler_input",
    "net_path_lost",
    "net_path_slow",
    "comm_bound",
    "checkpoint_stall",
    "host_memory_leak",
    "gil_held",
    "thread_deadlock",
    "stale_lock",
]  # the cause labels of the labelled cases


def cases_of(file: Path) -> list[tuple[Path, int]]:
    """The tests of a rule file by number."""
    data = yaml.load(file.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return [(file, number) for number in range(len(data["tests"]))]


CASES = [case for file in FILES for case in cases_of(file)]


@pytest.fixture(scope="module")
def read(registry: Registry) -> Callable[[Path], list[RuleTest]]:
    """Reads the tests of a rule file, once."""
    return cache(lambda file: read_tests(file, registry))


@pytest.fixture(scope="module")
def rules(registry: Registry) -> tuple[Rule, ...]:
    """The built-in rules."""
    book = load_rules((), registry)
    assert () == book.errors
    return book.rules


@pytest.mark.parametrize(("file", "number"), CASES, ids=[f"{file.stem}-{number}" for file, number in CASES])
def test_rule_test(read: Callable[[Path], list[RuleTest]], registry: Registry, file: Path, number: int) -> None:
    """Each test inside a rule file holds."""
    result = run_test(read(file)[number], registry)

    assert result.ok, result.message


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_findings_read_well(
    read: Callable[[Path], list[RuleTest]], registry: Registry, file: Path, language: str
) -> None:
    """The findings of a rule's own tests have whole texts in both languages: nothing left to fill in, a first remedy."""
    firing = [test for test in read(file) if isinstance(test.expect, dict)]
    findings = [finding for test in firing for finding in outcome(test, registry, language)[0]]

    assert findings
    for finding in findings:
        texts = [finding.title, finding.summary, finding.why, *(step.do for step in finding.remedy)]
        assert finding.remedy
        assert finding.evidence
        assert not [text for text in texts if not text or re.search(r"\{[a-z_]+(:[a-z]+)?\}", text)]
        assert ("未知" if language == "zh" else "unknown") not in finding.summary.replace("state unknown", "")
        if language == "zh":
            assert [] == [text for text in texts if not re.search(r"[\u4e00-\u9fff]", text)]


def test_every_text_is_there_in_chinese(rules: tuple[Rule, ...]) -> None:
    """Title, summary, why, remedy and the words of checks of every built-in rule stand in both languages."""
    missing = [
        (rule.id, text)
        for rule in rules
        for text in (
            rule.title, rule.summary, rule.why, rule.observed, rule.expected,
            *(part for step in rule.remedy for part in (step.do, step.confirm)),
        )
        if text and set(text) != {"en", "zh"}
    ]  # fmt: skip

    assert [] == missing


def test_every_threshold_says_where_it_comes_from(rules: tuple[Rule, ...]) -> None:
    """No number stands in a built-in rule without its reason."""
    assert [] == [
        (rule.id, name) for rule in rules for name, threshold in rule.thresholds.items() if not threshold.because
    ]


def test_causes_are_known(rules: tuple[Rule, ...]) -> None:
    """Each cause is one of the labels or is explained in docs/causes.md; what is explained exists, and has a meaning in both
    languages.
    """
    own = set(re.findall(r"^\| `([a-z_]+)` \|", (ROOT / "docs" / "causes.md").read_text(), re.MULTILINE))
    ids = {rule.id for rule in rules}

    assert [] == [rule.id for rule in rules if rule.cause not in {*LABELS, *own}]
    assert own <= {*(rule.cause for rule in rules), "rule_invalid"}
    assert {*LABELS, *own} == set(cause_labels())
    assert all(meaning["en"] and meaning["zh"] for meaning in cause_labels().values())
    for rule in rules:
        for entry in rule.explains:
            assert entry.label in (ids if entry.is_rule else {*LABELS, *own}), (rule.id, entry.label)


def test_rules_that_share_thresholds_share_their_values(rules: tuple[Rule, ...]) -> None:
    """straggler and straggler_input differ only in whose time it is: their common constants are the same."""
    by_id = {rule.id: rule for rule in rules}
    one, other = by_id["straggler"].thresholds, by_id["straggler_input"].thresholds

    assert {name: one[name].value for name in one} == {name: other[name].value for name in one}
