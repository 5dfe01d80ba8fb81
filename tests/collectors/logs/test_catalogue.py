from collections import Counter
from pathlib import Path

import pytest

from aidiag.collectors.logs.blocks import BLOCKS
from aidiag.collectors.logs.catalogue import MESSAGES, SOURCES, CatalogueError, Message, read_catalogue, read_messages
from aidiag.collectors.logs.compiled import Catalogue
from aidiag.collectors.logs.kinds import EVENTS
from aidiag.collectors.logs.kinds.launch import DERIVED
from aidiag.collectors.logs.scanner import Hit, Scanner
from aidiag.collectors.logs.splitter import Block

ALL = read_catalogue()

ENTRY = """\
- id: one
  component: test
  kind: loader_timeout
  severity: error
  pattern: |-
    timed out after <seconds:float> seconds
  meaning: A test.
  example: timed out after 3 seconds
  near_miss: timed out
"""


def hits(catalogue: Catalogue, line: str) -> list[Hit]:
    """What the scanner finds in one line."""
    return [hit for found in Scanner(catalogue).scan(Block(line.encode() + b"\n", 0, 1)) for hit in found.hits]


@pytest.mark.parametrize(
    ("message", "line"), [pytest.param(one, line, id=one.id) for one in ALL for line in one.examples]
)
def test_an_example_is_found_as_its_message(catalogue: Catalogue, message: Message, line: str) -> None:
    """Each real line gives its message, and no other entry takes it away."""
    assert message.id in [hit.wording.message.id for hit in hits(catalogue, line)]


@pytest.mark.parametrize(
    ("message", "line"), [pytest.param(one, line, id=one.id) for one in ALL for line in one.near_misses]
)
def test_a_near_miss_is_not_found(catalogue: Catalogue, message: Message, line: str) -> None:
    """A line that only looks alike does not give the message."""
    assert message.id not in [hit.wording.message.id for hit in hits(catalogue, line)]


@pytest.mark.parametrize("message", [pytest.param(one, id=one.id) for one in ALL])
@pytest.mark.parametrize("before", ["[rank3]: ", " 3: ", "[1,0]<stderr>:", "2026-11-30T20:18:39.5Z stdout F ", "junk>"])
def test_a_message_is_found_behind_any_prefix(catalogue: Catalogue, message: Message, before: str) -> None:
    """No pattern is anchored at the start of a line (but for those that must stand alone, behind real labels)."""
    if message.alone and before == "junk>":
        return
    for line in message.examples:
        assert message.id in [hit.wording.message.id for hit in hits(catalogue, before + line)]


def test_the_catalogue_holds_the_common_messages() -> None:
    """Eighty and more messages of NCCL, torch, launchers, kernel and schedulers, each id once, opened blocks known."""
    assert len(ALL) >= 80
    assert max(Counter(one.id for one in ALL).values()) == 1
    assert {one.opens for one in ALL} - {""} == set(BLOCKS)
    assert {one.kind for one in ALL} == {kind.name for kind in EVENTS} - DERIVED


def test_every_error_says_what_to_do_or_follows_from_one_that_does() -> None:
    """An error either has a remedy or is a launcher's or process's word about an error elsewhere."""
    followers = {
        "worker_failed", "process_group_aborted", "nccl_error", "collective_state", "process_killed", "task_failed",
        "python_exception", "system_call_failed", "collective_mismatch",
    }  # fmt: skip
    assert [one.id for one in ALL if one.severity == "error" and not one.remedy and one.kind not in followers] == []


def test_an_earlier_entry_wins_where_two_overlap(catalogue: Catalogue) -> None:
    """The specific reading of a line hides the general one, and other parts of the line still count."""
    line = "a:1:2 [0] NCCL WARN Cuda failure 'out of memory'a:1:2 [0] NCCL WARN something else"
    assert [hit.wording.message.id for hit in hits(catalogue, line)] == ["cuda-oom-other", "nccl-warning"]


@pytest.mark.parametrize(
    ("change", "place", "reason"),
    [
        (("seconds:float>", "seconds:float> <x:foo>"), 6, "no such type"),
        (("timed out after <seconds:float> seconds\n", "t <seconds:float>\n"), 6, "shorter than"),
        (("<seconds:float>", "<_:text><seconds:float>"), 6, "touch"),
        (("<seconds:float>", "<hours:float>"), 6, "no field hours"),
        (("kind: loader_timeout", "kind: loader_timout"), 3, "no event kind"),
        (("severity: error", "severity: bad"), 4, "severity is one of"),
        (("component: test", "compnent: test"), 2, "no key compnent"),
        (("component: test", "component: test\n  component: test"), 3, "twice"),
        (("  near_miss: timed out\n", ""), 1, "has no near_miss"),
        (("component: test", "component: [a]"), 2, "are texts"),
        (("component: test", "component: test\n  repeats: layer"), 7, "must come once"),
        (("component: test", "component: test\n  adds: layer"), 3, "name=value"),
    ],
)
def test_a_mistake_is_refused_with_file_and_line(change: tuple[str, str], place: int, reason: str) -> None:
    """Whoever adds a message learns where it is wrong."""
    with pytest.raises(CatalogueError, match=rf"^mine\.yaml:{place}: .*{reason}"):
        read_messages(ENTRY.replace(*change), "mine.yaml")


def test_an_id_comes_once_and_a_catalogue_is_a_list() -> None:
    """A second entry of the same id, and a file of another shape, are refused."""
    with pytest.raises(CatalogueError, match=r"mine\.yaml:10: one is in line 1 already"):
        read_messages(ENTRY + ENTRY, "mine.yaml")
    with pytest.raises(CatalogueError, match="one list of messages"):
        read_messages("a: b", "mine.yaml")
    with pytest.raises(CatalogueError, match=r"mine\.yaml: "):
        read_messages("- [", "mine.yaml")


def test_every_file_has_its_place_and_no_id_comes_in_two(tmp_path: Path) -> None:
    """A file that the order of precedence does not name would be left out in silence."""
    assert {file.stem for file in MESSAGES.glob("*")} == set(SOURCES)
    (tmp_path / "a.yaml").write_text(ENTRY)
    (tmp_path / "b.yaml").write_text(ENTRY)
    with pytest.raises(CatalogueError, match=r"b\.yaml:1: one is in a\.yaml:1 already"):
        read_catalogue(tmp_path, ["a", "b"])


def test_the_unchanged_entry_is_accepted() -> None:
    """The entry that the tests above spoil is good."""
    (message,) = read_messages(ENTRY, "mine.yaml")
    assert (message.id, message.line, message.patterns[0].literals) == ("one", 1, ("timed out after ",))
