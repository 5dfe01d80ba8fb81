import os
import subprocess
import sys
from pathlib import Path

import pytest

from aidiag.collectors.logs import compiled
from aidiag.collectors.logs.catalogue import MESSAGES, CatalogueError
from aidiag.collectors.logs.compiled import Catalogue, load
from aidiag.collectors.logs.prefilter import HyperscanPrefilter, StdlibPrefilter
from aidiag.collectors.logs.scanner import Scanner
from aidiag.collectors.logs.splitter import Block

LINE = b"RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n"


def found(catalogue: Catalogue) -> list[str]:
    """What a catalogue finds in LINE."""
    return [hit.wording.message.id for line in Scanner(catalogue).scan(Block(LINE, 0, 1)) for hit in line.hits]


def test_a_second_load_reads_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a cache nothing is parsed or checked again, and the same is found."""
    first = load(MESSAGES, tmp_path / "cache")
    monkeypatch.setattr("aidiag.collectors.logs.catalogue.read_messages", None)
    second = load(MESSAGES, tmp_path / "cache")
    assert found(first) == found(second) == ["cuda-oom"]
    assert list(first.messages) == list(second.messages)
    assert first.texts == second.texts
    (file,) = (tmp_path / "cache").iterdir()
    assert file.stat().st_mode & 0o077 == 0
    assert (tmp_path / "cache").stat().st_mode & 0o077 == 0


@pytest.mark.usefixtures("needs_hyperscan")
def test_the_cached_database_is_scanned_without_compiling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies in the cache is the compiled database itself."""
    load(MESSAGES, tmp_path)
    second = load(MESSAGES, tmp_path)
    assert isinstance(second.prefilter(), HyperscanPrefilter)
    made = HyperscanPrefilter({}, database=second.database())
    assert (len(LINE) - 9, second.texts.index(b" out of memory. Tried to allocate ")) in made.find(LINE)


@pytest.mark.parametrize("damage", [b"", b"x" * 100, None])
def test_a_damaged_cache_is_ignored_and_replaced(tmp_path: Path, damage: bytes | None) -> None:
    """Emptied, overwritten, or with one byte changed."""
    load(MESSAGES, tmp_path)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:1000] + bytes([whole[1000] ^ 1]) + whole[1001:] if damage is None else damage)
    assert found(load(MESSAGES, tmp_path)) == ["cuda-oom"]
    assert file.read_bytes() == whole


@pytest.mark.usefixtures("needs_hyperscan")
def test_a_database_of_another_cpu_is_compiled_afresh(tmp_path: Path) -> None:
    """A home folder may be shared by hosts of several kinds."""
    first = load(MESSAGES, tmp_path)
    (file,) = tmp_path.iterdir()
    compiled._write(file, compiled._Cached(tuple(first.messages.values()), b"not a database"))
    second = load(MESSAGES, tmp_path)
    assert isinstance(second.prefilter(), HyperscanPrefilter)
    assert found(second) == ["cuda-oom"]
    other = HyperscanPrefilter({0: b"something else"}).dump()
    compiled._write(file, compiled._Cached(tuple(first.messages.values()), other))
    assert found(load(MESSAGES, tmp_path)) == ["cuda-oom"]


def test_a_cache_that_is_a_link_or_cannot_be_written_is_no_trouble(tmp_path: Path) -> None:
    """Neither a link in place of the file, nor a file in place of the folder."""
    load(MESSAGES, tmp_path / "a")
    (file,) = (tmp_path / "a").iterdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / file.name).symlink_to(file)
    assert compiled._read(tmp_path / "b" / file.name) is None
    assert compiled._read(file) is not None
    (tmp_path / "c").write_text("a file")
    assert found(load(MESSAGES, tmp_path / "c")) == ["cuda-oom"]
    assert found(load(MESSAGES, None)) == ["cuda-oom"]


def test_a_changed_catalogue_is_read_afresh(tmp_path: Path) -> None:
    """The key of the cache is what the catalogue holds."""
    mine = tmp_path / "mine.yaml"
    text = (MESSAGES / "torch_memory.yaml").read_text()
    mine.write_text(text)
    load(tmp_path, tmp_path / "cache", ["mine"])
    mine.write_text(text.replace("id: cuda-oom\n", "id: mine\n"))
    assert found(load(tmp_path, tmp_path / "cache", ["mine"])) == ["mine"]
    mine.write_text(text.replace("kind: cuda_out_of_memory", "kind: nothing"))
    with pytest.raises(CatalogueError, match=r"mine\.yaml:\d+: no event kind nothing"):
        load(tmp_path, tmp_path / "cache", ["mine"])


@pytest.mark.parametrize("broken", ["import", "database"])
def test_without_a_working_hyperscan_the_standard_library_does_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """Where the module does not load, or loads and fails, the results are the same."""

    def fails(*_: object, **__: object) -> None:
        raise ImportError("illegal instruction")

    if broken == "import":
        monkeypatch.setattr("importlib.import_module", fails)
    else:
        monkeypatch.setattr(compiled, "HyperscanPrefilter", fails)
    catalogue = load(MESSAGES, tmp_path)
    assert isinstance(catalogue.prefilter(), StdlibPrefilter)
    assert found(catalogue) == found(load(MESSAGES, tmp_path)) == ["cuda-oom"]


def test_caches_of_catalogues_given_up_are_removed(tmp_path: Path) -> None:
    """A user who upgrades again and again keeps the last few caches, the one in use among them."""
    for number in range(9):
        old = tmp_path / f"messages-{number:032}.bin"
        old.write_bytes(b"old")
        os.utime(old, (number, number))
    (tmp_path / "rules.cache").write_bytes(b"not ours to remove")

    load(MESSAGES, tmp_path)

    left = sorted(path.name for path in tmp_path.glob("messages-*.bin"))
    assert [f"messages-{number:032}.bin" for number in (6, 7, 8)] == [name for name in left if name < "messages-1"]
    assert compiled.CACHES_KEPT == len(left)
    assert (tmp_path / "rules.cache").exists()


def test_importing_the_collectors_loads_no_catalogue_and_no_hyperscan() -> None:
    """`aidiag check` does not pay for logs."""
    program = (
        "import sys, aidiag.collectors as c; c.registry();"
        "assert 'hyperscan' not in sys.modules;"
        "from aidiag.collectors.logs import compiled;"
        "assert compiled.load_catalogue.cache_info().currsize == 0"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "PYTHONPATH": "."})


@pytest.mark.usefixtures("needs_hyperscan")
def test_common_texts_are_looked_for_with_what_belongs_to_them(tmp_path: Path) -> None:
    """A message whose every text stands in ordinary lines is reported where the whole stands: frequent words cost nothing."""
    (tmp_path / "mine.yaml").write_text(
        "- {id: one, component: test, kind: loader_timeout, severity: info, meaning: A test.,\n"
        "   pattern: 'epoch <seconds:float> tokens/s', example: epoch 3 tokens/s, near_miss: epoch 3}\n"
    )
    catalogue = load(tmp_path, None, ["mine"])
    prefilter = catalogue.prefilter()
    assert isinstance(prefilter, HyperscanPrefilter)
    assert prefilter.find(b"epoch 3, tokens/s, epoch x tokens/s\nepoch 3\n tokens/s\n" * 50) == []
    ((end, number),) = prefilter.find(b"the epoch 3.5 tokens/s!")
    assert (end, [one.message.id for one in catalogue.by_text[number]]) == (22, ["one"])


@pytest.mark.usefixtures("needs_hyperscan")
def test_a_catalogue_with_an_outline_that_hyperscan_refuses_is_still_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the texts alone announce."""
    monkeypatch.setattr("aidiag.collectors.logs.pattern.outline", lambda _: "(?<=a)b")
    made = Catalogue(tuple(load(MESSAGES, None).messages.values()))
    assert isinstance(made.prefilter(), HyperscanPrefilter)
    assert found(made) == ["cuda-oom"]


@pytest.mark.usefixtures("needs_hyperscan")
def test_hyperscan_takes_all_outlines() -> None:
    """A new type of field must not be one that it refuses."""
    catalogue = load(MESSAGES, None)
    HyperscanPrefilter(catalogue._outlined(), catalogue.repeating)
