"""The rooms, their links, and what reaches the wheel."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import tomllib

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("collectors", "diagnose", "grafana", "rules", "trainer_shim")
DATA_SUFFIXES = {".yaml", ".yml", ".tsv", ".json", ".toml", ".md", ".html"}


@pytest.fixture(scope="module")
def wheel_names(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The member names of a wheel built from a copy of this tree, where no earlier build has left files."""
    folder = tmp_path_factory.mktemp("wheel")
    tree = folder / "tree"
    unwanted = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, tree, symlinks=True, ignore=unwanted)
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(tree)],
        check=True,
        capture_output=True,
        text=True,
    )
    (wheel,) = folder.glob("*.whl")
    return zipfile.ZipFile(wheel).namelist()


@pytest.mark.parametrize("room", ROOMS)
def test_room_is_a_relative_link(room: str) -> None:
    """Each room is reached as aidiag.<room> through a link to ../<room>."""
    link = ROOT / "aidiag" / room

    assert link.is_symlink()
    assert link.readlink() == Path("..") / room


def test_wheel_has_one_top_level_name(wheel_names: list[str]) -> None:
    """The wheel puts nothing but aidiag into site-packages."""
    tops = {name.split("/")[0] for name in wheel_names}

    assert {"aidiag"} == {top for top in tops if not top.endswith(".dist-info")}


def test_every_data_file_is_in_the_wheel(wheel_names: list[str]) -> None:
    """Rules, catalogues, schemas and dashboards travel with the wheel."""
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *ROOMS],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.splitlines()  # fmt: skip
    data = [name for name in tracked if Path(name).suffix in DATA_SUFFIXES or name.endswith("py.typed")]

    assert [] == [name for name in data if f"aidiag/{name}" not in wheel_names]


def test_pyright_lists_every_room() -> None:
    """pyright does not follow links, so each room is named in its settings."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pyright"]["include"]

    assert {f"aidiag/{room}" for room in ROOMS} <= set(settings)
