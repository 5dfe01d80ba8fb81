"""A trainer that fails: its exception is noted, and reported as ever."""

from __future__ import annotations

from typing import Any

import pytest

STEP = "import torch; torch.optim.SGD().step()\n"


def test_an_exception_is_noted(injected: Any) -> None:
    """Type, message, place, phase and step of an exception are kept; the traceback and the exit status are Python's."""
    program = f"{STEP}\ndef train():\n    raise ValueError('bad sample 17')\ntrain()"
    watched = injected.run(program, check=False)
    (record,) = injected.records()
    injected.environ["AIDIAG_DISABLE"] = "1"
    alone = injected.run(program, check=False)

    assert (alone.returncode, alone.stderr, alone.stdout) == (watched.returncode, watched.stderr, watched.stdout)
    (note,) = record.notes
    assert ("exception", "ValueError", "bad sample 17", 2) == (
        note.kind,
        note.fields["type"],
        note.fields["message"],
        note.fields["step"],
    )
    assert "<string>:4 in train < <string>:5 in <module>" == note.fields["where"]
    assert "failed" == record.state.stage


def test_secrets_in_a_message_are_not_kept(injected: Any) -> None:
    """A message may hold an address with a password."""
    injected.run(f"{STEP}raise OSError('cannot open https://user:hunter2@host/x')", check=False)

    assert "hunter2" not in str(injected.records()[0].notes[0].fields)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_users_own_hook(injected: Any, when: str) -> None:
    """An exception hook of the user's is called whether it was set before us or after."""
    hook = "import sys; sys.excepthook = lambda *error: print('mine', error[0].__name__)\n"
    program = (hook + STEP if when == "before" else STEP + hook) + "raise KeyError(1)"
    done = injected.run(program, check=False)

    assert ("mine KeyError", "", 1) == (done.stdout.strip(), done.stderr, done.returncode)
    assert (1 if when == "before" else 0) == len(injected.records()[0].notes)


def test_detaching_gives_the_hook_back(injected: Any) -> None:
    """After detach() Python has its own exception hook again; a later one of the user's stays."""
    program = f"""
import sys
{STEP}
import aidiag.trainer_shim as shim
before = sys.excepthook
shim.detach()
print(before is not sys.__excepthook__, sys.excepthook is sys.__excepthook__)
shim.attach()
sys.excepthook = mine = lambda *error: None
shim.detach()
print(sys.excepthook is mine)
"""

    assert "True True\nTrue\n" == injected.run(program).stdout


def test_an_exit_is_no_exception(injected: Any) -> None:
    """sys.exit() is not a failure of the training loop."""
    done = injected.run(f"{STEP}import sys; sys.exit(3)", check=False)

    assert (3, ()) == (done.returncode, injected.records()[0].notes)
