"""Injection by PYTHONPATH: Python works as ever, and a process that trains has a record."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aidiag.trainer_shim.export import export

ROOT = Path(__file__).resolve().parents[2]
TRAIN = "import torch; torch.optim.SGD().step()\n"
PYENV = Path.home() / ".pyenv" / "versions"
PYTHONS = sorted(PYENV.glob("*/bin/python")) if PYENV.is_dir() else []


@pytest.mark.parametrize(
    "event",
    [
        "torch.optim.SGD().step()",
        "next(iter(torch.utils.data.DataLoader([1])))",
        "torch.distributed.init_process_group()",
        "from torch.distributed import init_process_group; init_process_group()",
        "import aidiag.trainer_shim as shim; shim.step()",
        "import aidiag.trainer_shim as shim; shim.attach()",
        "import aidiag.trainer_shim; aidiag.trainer_shim.attach()",
        "from aidiag.trainer_shim import phase; phase('forward').__enter__()",
    ],
)
def test_a_trainer_attaches(injected: Any, event: str) -> None:
    """A loader, an optimizer, a process group or a call of ours make a process a rank with a record."""
    done = injected.run(f"import torch; {event}")
    (record,) = injected.records()

    assert ("", "") == (done.stdout, done.stderr)
    assert ("test", 0, 1) == (record.identity.job_id, record.identity.rank, record.identity.world_size)
    assert 0 == record.state.hook_errors


@pytest.mark.parametrize(
    "program",
    ["pass", "import json, asyncio", "import torch", "import torch; o = torch.optim.SGD(); l = torch.utils.data"],
    ids=["nothing", "no torch", "launcher", "inference"],
)
def test_others_do_not_attach(injected: Any, program: str) -> None:
    """A process that does not train leaves nothing, whatever it imports."""
    done = injected.run(program)

    assert ("", "") == (done.stdout, done.stderr)
    assert [] == list(injected.folder.iterdir())


def test_nothing_heavy_is_loaded_before_torch(injected: Any) -> None:
    """A process without torch pays for three small modules, and for none of the standard library's large ones."""
    program = "import sys; print(*sorted(sys.modules))"
    with_shim = set(injected.run(program).stdout.split())
    injected.environ["AIDIAG_DISABLE"] = "1"
    without = set(injected.run(program).stdout.split())

    assert {"_aidiag_shim", "_aidiag_shim.arming", "_aidiag_shim.stand_in"} == {
        name for name in with_shim - without if "aidiag" in name
    }
    heavy = {
        "typing",
        "json",
        "re",
        "enum",
        "dataclasses",
        "importlib.util",
        "contextlib",
        "functools",
        "socket",
        "ctypes",
    }
    assert not heavy & (with_shim - without)


def test_the_switch(injected: Any) -> None:
    """AIDIAG_DISABLE=1 goes before everything: no finder, no module, no record."""
    injected.environ["AIDIAG_DISABLE"] = "1"
    program = f"{TRAIN}import sys; print([m for m in sys.modules if 'aidiag' in m and 'editable' not in m], [f for f in sys.meta_path if 'aidiag' in repr(f) and 'editable' not in repr(f)])"
    done = injected.run(program)

    assert "[] []" == done.stdout.strip()
    assert [] == list(injected.folder.iterdir())


@pytest.mark.parametrize("options", [["-I"], ["-E"], ["-S"]], ids=str)
def test_an_isolated_python(injected: Any, options: list[str]) -> None:
    """`python -I`, `-E` and `-S` leave us out, and work."""
    done = injected.run("print('fine')", *options)

    assert "fine" == done.stdout.strip()
    assert [] == list(injected.folder.iterdir())


@pytest.mark.parametrize("python", PYTHONS, ids=lambda path: path.parts[-3])
def test_every_python_starts(injected: Any, python: Path) -> None:
    """Interpreters of all ages start without a word; those that are old enough attach."""
    done = injected.run("import sys; sys.stdout.write('fine')", python=str(python))
    assert ("fine", "") == (done.stdout, done.stderr)
    version = tuple(int(part) for part in python.parts[-3].split(".")[:2])
    if version >= (3, 9):
        done = injected.run(TRAIN, python=str(python))
        assert ("", "") == (done.stdout, done.stderr)
        assert 1 == injected.records()[0].state.steps


def test_a_torch_that_cannot_be_imported(injected: Any) -> None:
    """An import of torch that fails, fails as it would without us, and may be tried again."""
    injected.environ["FAKE_TORCH_BROKEN"] = "1"
    program = """
import os
try:
    import torch
except ImportError as error:
    print(error)
del os.environ["FAKE_TORCH_BROKEN"]
import torch
torch.optim.SGD().step()
"""
    done = injected.run(program)

    assert "planted: libtorch cannot be loaded" == done.stdout.strip()
    assert 1 == injected.records()[0].state.steps


def test_the_loader_of_torch_stays_what_it_is(injected: Any) -> None:
    """Looking for torch without importing it works, and the module has its own spec and loader afterwards."""
    program = """
import importlib.util, sys
before = importlib.util.find_spec("torch")
import torch, inspect
print(type(before.loader).__name__, type(torch.__loader__).__name__, "exec_module" in vars(torch.__loader__))
print(torch.__spec__.loader is torch.__loader__, len(inspect.getsource(torch)) > 100)
print([f for f in sys.meta_path if "AfterImport" in repr(f)])
"""
    done = injected.run(program)

    assert ["SourceFileLoader SourceFileLoader False", "True True", "[]"] == done.stdout.splitlines()


@pytest.mark.parametrize("content", ["value = 7", "raise ValueError('planted')", "import nothing_of_that_name", "1 +"])
def test_the_users_own_sitecustomize(injected: Any, tmp_path: Path, content: str) -> None:
    """The user's sitecustomize runs as if ours were not there: same module, same errors, same words on stderr."""
    (tmp_path / "sitecustomize.py").write_text(content)
    program = (
        "import sys; m = sys.modules.get('sitecustomize'); "
        "print(m and (m.__file__, m.__spec__.origin, m.__name__, getattr(m, 'value', None)))"
    )
    ours, fake = injected.path
    injected.path = [tmp_path]
    alone = injected.run(program)
    injected.path = [ours, tmp_path, fake]
    both = injected.run(program)
    trained = injected.run(TRAIN)

    assert (alone.stdout, alone.stderr) == (both.stdout, both.stderr)
    assert alone.stderr == trained.stderr
    assert 1 == len(injected.records())


def test_two_copies_on_the_path(injected: Any, tmp_path: Path) -> None:
    """A second copy of the shim on the path does nothing, and the user's sitecustomize behind it runs once."""
    copy = export(tmp_path)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("print('own')")
    injected.path = [injected.path[0], copy, injected.path[0], tmp_path / "own", *injected.path[1:]]
    done = injected.run(TRAIN)

    assert ("own", "") == (done.stdout.strip(), done.stderr)
    assert 1 == len(injected.records())


def test_an_exported_shim_needs_no_aidiag(injected: Any, tmp_path: Path) -> None:
    """A copy in an image is enough: it attaches, and answers to the name of the package."""
    injected.path[0] = export(tmp_path)
    assert not list(tmp_path.rglob("__pycache__"))
    done = injected.run(
        f"{TRAIN}import aidiag.trainer_shim as shim, sys; print(shim.attach(), sys.modules['_aidiag_shim'].__file__)"
    )

    assert f"True {tmp_path / 'trainer_shim' / '__init__.py'}" == done.stdout.strip()
    assert export(tmp_path) == injected.path[0]


def test_an_export_harms_nothing(tmp_path: Path) -> None:
    """What is no shim is not replaced by one."""
    (tmp_path / "trainer_shim").mkdir()
    (tmp_path / "trainer_shim" / "mine.py").touch()
    with pytest.raises(FileExistsError):
        export(tmp_path)

    assert (tmp_path / "trainer_shim" / "mine.py").exists()


def test_one_shim_beside_an_installed_aidiag(injected: Any, tmp_path: Path) -> None:
    """Where aidiag is installed, too, the user's import leads to the injected shim; other modules come from aidiag."""
    injected.path[0] = export(tmp_path)
    injected.path.append(ROOT)
    program = f"""
{TRAIN}
import sys
import aidiag, aidiag.trainer_shim as shim, aidiag.trainer_shim.record as record
print(shim.attach is sys.modules["_aidiag_shim"].attach, aidiag.__version__ != "", record.__file__)
shim.step()
"""
    done = injected.run(program)

    same, real, record_file = done.stdout.split()
    assert ("True", "True") == (same, real)
    assert Path(record_file).is_relative_to(ROOT)
    assert [2] == [record.state.steps for record in injected.records()]


def test_a_users_module_called_aidiag(injected: Any, tmp_path: Path) -> None:
    """A module of the user's that happens to be called aidiag is neither run nor hidden by us."""
    (tmp_path / "aidiag.py").write_text("print('mine')")
    injected.path.insert(1, tmp_path)
    assert "" == injected.run(TRAIN).stdout

    assert "mine" == injected.run(f"{TRAIN}import aidiag").stdout.strip()


def test_without_injection(injected: Any) -> None:
    """attach() in a script that imports aidiag itself, before or after torch, does the same."""
    injected.path = [ROOT, *injected.path[1:]]
    for program in (
        f"import aidiag.trainer_shim as shim; shim.attach(rank=1, world_size=2); {TRAIN}",
        f"import torch; import aidiag.trainer_shim as shim; shim.attach(rank=2, world_size=3); {TRAIN}",
    ):
        done = injected.run(program)
        assert ("", "") == (done.stdout, done.stderr)

    assert [(1, 1), (2, 1)] == [(record.identity.rank, record.state.steps) for record in injected.records()]


def test_python_39_can_parse_all_of_it() -> None:
    """Every file of the shim has the syntax of Python 3.9, and loads under it."""
    pythons = [python for python in PYTHONS if python.parts[-3].startswith("3.9.")]
    if not pythons:
        pytest.skip("no Python 3.9 here")
    modules = [
        str(path.relative_to(ROOT).with_suffix("")).replace("/", ".").removesuffix(".__init__")
        for path in sorted((ROOT / "trainer_shim").rglob("*.py"))
        if "sitecustomize" not in path.name
    ]
    program = f"import importlib; [importlib.import_module('aidiag.' + name) for name in {modules!r}]"
    subprocess.run(
        [str(pythons[0]), "-W", "error", "-c", program], check=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )


def test_the_shim_is_stdlib_only() -> None:
    """All modules of the shim load without any package that is installed."""
    modules = [
        str(path.relative_to(ROOT).with_suffix("")).replace("/", ".").removesuffix(".__init__")
        for path in sorted((ROOT / "trainer_shim").rglob("*.py"))
        if "sitecustomize" not in path.name
    ]
    program = (
        f"import sys; sys.path[:] = [p for p in sys.path if 'site-packages' not in p] + [{str(ROOT)!r}]; import importlib; "
        f"[importlib.import_module('aidiag.' + name) for name in {modules!r}]; print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-S", "-c", program], check=True, capture_output=True, text=True, cwd="/")

    assert "False" == done.stdout.strip()
