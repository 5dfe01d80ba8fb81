"""Helper processes: answers, errors, calls that do not return, helpers that die or cannot be killed."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aidiag.collectors.errors import CollectorError, HungError, NotPermittedError, UnavailableError
from aidiag.collectors.helper.helper import DEATHS_LIMIT, DEATHS_WINDOW_SECONDS, Helper
from aidiag.collectors.helper.pipes import library_path

SCRIPT = """
import os, signal, sys, time

class UnavailableError(Exception):
    def __init__(self, reason, remedy):
        self.reason, self.remedy = reason, remedy

def unavailable():
    raise UnavailableError("no library", "install it")

def stubborn(seconds):
    doing("ioctl of gpu2")
    time.sleep(seconds)
    return "late"

def chatter(times):
    for number in range(times):
        doing(f"part {number}")
        time.sleep(0.3)
    return times

def refuse():
    raise PermissionError(1, "Operation not permitted", "/dev/nvidia0")

VERBS = {
    "echo": lambda *values: list(values),
    "environ": lambda: dict(os.environ),
    "modules": lambda: sorted(sys.modules),
    "sleep": time.sleep,
    "stubborn": stubborn,
    "chatter": chatter,
    "unavailable": unavailable,
    "refuse": refuse,
    "divide": lambda a, b: a / b,
    "die": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "leave": lambda: os.write(2, b"out of cheese\\n") and os._exit(3),
    "print": lambda text: print(text, flush=True),
    "flood": lambda mebibytes: "x" * (mebibytes << 20),
    "close": lambda: os.closerange(3, 9) or time.sleep(60),
}
"""

MakeHelper = Callable[..., Helper]


@pytest.fixture
def make_helper(tmp_path: Path) -> Iterator[MakeHelper]:
    """A maker of helpers that serve SCRIPT and are killed in the end."""
    script = tmp_path / "verbs.py"
    script.write_text(SCRIPT)
    made: list[Helper] = []

    def make(**options: object) -> Helper:
        made.append(Helper(script, name="test", **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for helper in made:
        helper.kill()


def test_answers_come_back(make_helper: MakeHelper) -> None:
    """A verb gets JSON values and gives one, again and again, in one process."""
    helper = make_helper()

    assert [1, "zwei", None] == helper.ask("echo", 1, "zwei", None)
    assert [{"a": [1.5]}] == helper.ask("echo", {"a": [1.5]})
    assert 1 == helper.starts
    assert helper.pending() is None


def test_errors_keep_their_class(make_helper: MakeHelper) -> None:
    """An error named like one of ours arrives as that class with its remedy, and the helper goes on."""
    helper = make_helper()

    with pytest.raises(UnavailableError, match="no library") as caught:
        helper.ask("unavailable")
    assert "install it" == caught.value.remedy
    with pytest.raises(NotPermittedError, match="/dev/nvidia0"):
        helper.ask("refuse")
    with pytest.raises(CollectorError, match="ZeroDivisionError"):
        helper.ask("divide", 1, 0)
    with pytest.raises(CollectorError, match="KeyError: 'nonsense'"):
        helper.ask("nonsense")
    assert [1] == helper.ask("echo", 1)


def test_environment_is_clean(make_helper: MakeHelper, monkeypatch: pytest.MonkeyPatch) -> None:
    """The helper sees neither the secrets nor the library paths of its parent, but what it is given."""
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setenv("LD_PRELOAD", "/nowhere/evil.so")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")

    seen = make_helper(environ={"FAKE": "1"}).ask("environ")

    assert {"PATH", "LANG", "FAKE"} <= set(seen)
    assert not {"HF_TOKEN", "LD_PRELOAD", "PYTHONPATH", "HOME"} & set(seen)


def test_library_path_keeps_only_the_folder_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder of LD_LIBRARY_PATH is handed on, except the one that libpython was loaded from."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    own = {line[line.find("/") :].rpartition("/")[0] for line in maps if "/libpython" in line}
    monkeypatch.setenv("LD_LIBRARY_PATH", ":".join(["/opt/stubs", *own]))

    assert own == set(library_path().values())


def test_prints_do_not_mix_with_answers(make_helper: MakeHelper) -> None:
    """What a library prints is no answer."""
    helper = make_helper()

    assert helper.ask("print", '{"id": 2, "value": "forged"}') is None
    assert ["mine"] == helper.ask("echo", "mine")


def test_hung_call_is_named_and_not_repeated(make_helper: MakeHelper) -> None:
    """A call past its deadline is reported with its age; no second process is started while it is pending."""
    helper = make_helper(deadline_seconds=0.2)
    helper.ask("echo")
    first = helper.pid

    with pytest.raises(HungError, match=r"sleep\(60\) has not returned for 0\.\d s"):
        helper.ask("sleep", 60)
    with pytest.raises(HungError, match=r"sleep\(60\) has not returned"):
        helper.ask("echo")
    pending = helper.pending()
    assert pending is not None
    assert "sleep" == pending[0]
    assert pending[1] >= 0.2
    assert (1, 1, first) == (helper.starts, helper.timeouts, helper.pid)


def test_helper_says_what_it_is_doing(make_helper: MakeHelper) -> None:
    """The inner call that does not return is named, not the verb around it."""
    helper = make_helper(deadline_seconds=0.2)

    with pytest.raises(HungError, match="ioctl of gpu2 has not returned"):
        helper.ask("stubborn", 60)
    pending = helper.pending()
    assert pending is not None
    assert "ioctl of gpu2" == pending[0]


def test_signs_of_life_stretch_the_deadline(make_helper: MakeHelper) -> None:
    """A long call that keeps saying what it does is not hung."""
    assert 5 == make_helper(deadline_seconds=1.0).ask("chatter", 5)


def test_late_answer_is_dropped(make_helper: MakeHelper) -> None:
    """A call that returns after its deadline frees the helper, and its answer is not taken for another's."""
    helper = make_helper(deadline_seconds=0.1)
    with pytest.raises(HungError):
        helper.ask("stubborn", 0.6)

    end = time.monotonic() + 10
    while helper.pending() and time.monotonic() < end:
        time.sleep(0.05)

    assert ["fresh"] == helper.ask("echo", "fresh", deadline_seconds=5)
    assert 1 == helper.starts


def test_patience_ends_with_a_kill(make_helper: MakeHelper) -> None:
    """A helper that is stuck in user space is killed after a while, and a new one takes its place."""
    helper = make_helper(deadline_seconds=0.1, patience_seconds=0.3)
    with pytest.raises(HungError):
        helper.ask("sleep", 60)
    time.sleep(0.3)

    assert ["again"] == helper.ask("echo", "again", deadline_seconds=5)
    assert 2 == helper.starts


def test_stopped_helper_is_hung(make_helper: MakeHelper) -> None:
    """A helper that does not run at all (SIGSTOP) is hung, and can be killed at will."""
    helper = make_helper(deadline_seconds=0.2)
    helper.ask("echo")
    assert helper.pid
    os.kill(helper.pid, signal.SIGSTOP)

    with pytest.raises(HungError, match=r"echo\(1\) has not returned"):
        helper.ask("echo", 1)
    assert helper.kill()
    assert [2] == helper.ask("echo", 2, deadline_seconds=5)


def test_death_in_a_call_is_told(make_helper: MakeHelper) -> None:
    """A crash inside a library kills only the helper; the message has the signal, or the last line it wrote."""
    helper = make_helper()

    with pytest.raises(CollectorError, match=r"died in die\(\): signal 11"):
        helper.ask("die")
    with pytest.raises(CollectorError, match=r"died in leave\(\): exit status 3, out of cheese"):
        helper.ask("leave")
    assert [1] == helper.ask("echo", 1)


def test_repeated_deaths_stop_the_restarts(tmp_path: Path) -> None:
    """After three deaths in ten minutes the helper stays down until they are over."""
    script = tmp_path / "verbs.py"
    script.write_text(SCRIPT)
    now = 1000.0
    helper = Helper(script, name="test", clock=lambda: now)
    for _ in range(DEATHS_LIMIT):
        with pytest.raises(CollectorError, match="signal 11"):
            helper.ask("die")

    with pytest.raises(CollectorError, match="died 3 times; it is not started again for 600 s"):
        helper.ask("echo")
    now += DEATHS_WINDOW_SECONDS
    assert [] == helper.ask("echo")
    helper.close()


def test_idle_death_is_mended(make_helper: MakeHelper) -> None:
    """A helper that was killed between two calls is started again."""
    helper = make_helper()
    helper.ask("echo")
    assert helper.pid
    os.kill(helper.pid, signal.SIGKILL)
    os.waitid(os.P_PID, helper.pid, os.WEXITED | os.WNOWAIT)

    assert [1] == helper.ask("echo", 1)
    assert 2 == helper.starts


def test_closed_output_is_an_end(make_helper: MakeHelper) -> None:
    """A helper that closes its output but lives on is killed."""
    with pytest.raises(CollectorError, match=r"died in close\(\): signal 9"):
        make_helper(deadline_seconds=5).ask("close")


def test_broken_script_is_an_error(tmp_path: Path) -> None:
    """A script that cannot be loaded gives the error of Python, not a wait."""
    script = tmp_path / "broken.py"
    script.write_text("VERBS = {\n")

    with pytest.raises(CollectorError, match=r"died in the start of the x helper: exit status 1, SyntaxError"):
        Helper(script, name="x").ask("echo")


def test_endless_answer_is_refused(make_helper: MakeHelper) -> None:
    """An answer larger than the limit ends the helper instead of filling the memory."""
    helper = make_helper(deadline_seconds=20)

    with pytest.raises(CollectorError, match="more than 8 MiB"):
        helper.ask("flood", 9)
    assert [1] == helper.ask("echo", 1)


def test_close_ends_the_process(make_helper: MakeHelper) -> None:
    """Closing ends an idle and a hung helper alike, at once."""
    idle, hung = make_helper(), make_helper(deadline_seconds=0.1)
    idle.ask("echo", deadline_seconds=5)
    with pytest.raises(HungError):
        hung.ask("sleep", 60)
    pids = [idle.pid, hung.pid]

    idle.close()
    hung.close()

    assert [False, False] == [Path(f"/proc/{pid}").exists() for pid in pids]


def test_second_thread_does_not_wait_for_a_hung_call(make_helper: MakeHelper) -> None:
    """While one thread waits for an answer, another is told what has not returned."""
    helper = make_helper(deadline_seconds=5.0)
    helper.ask("echo")

    def hang() -> None:
        with pytest.raises(HungError):
            helper.ask("sleep", 60)

    thread = threading.Thread(target=hang)
    thread.start()
    while helper.pending() is None:
        time.sleep(0.01)

    with pytest.raises(HungError, match=r"sleep\(60\) has not returned"):
        helper.ask("echo", deadline_seconds=0.1)
    thread.join(timeout=30)
    assert not thread.is_alive()


def test_no_packages_are_loaded(make_helper: MakeHelper) -> None:
    """Without packages the helper imports neither `site` nor anything that a package put in its way."""
    assert "site" not in make_helper(packages=False).ask("modules")
