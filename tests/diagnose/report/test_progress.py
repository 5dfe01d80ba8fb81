import io

import pytest

from aidiag.diagnose.report.progress import Progress


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """What it says."""
        return True


class Clock:
    """A clock that is set by hand."""

    now = 100.0

    def __call__(self) -> float:
        """The time that was set."""
        return self.now


def test_long_work_shows_how_far_it_is_and_leaves_no_trace() -> None:
    """After a second a bar, with what is left; in the end the line is empty again."""
    terminal, clock = Terminal(), Clock()
    bar = Progress(terminal, clock)
    bar.expect(300 << 20)
    bar.expect(100 << 20)
    bar(50 << 20)
    assert terminal.getvalue() == ""
    clock.now += 2
    bar(50 << 20)
    bar(0)  # within the same tenth of a second
    assert terminal.getvalue() == "\r\x1b[Kaidiag: reading [#####               ]  25%  100 MiB, 50 MiB/s, 6 s left"
    bar.erase()
    bar.erase()
    assert terminal.getvalue().endswith("left\r\x1b[K")
    assert terminal.getvalue().count("\x1b[K") == 2


def test_a_pipe_has_no_end_in_sight() -> None:
    """Only what was read can be told."""
    terminal, clock = Terminal(), Clock()
    bar = Progress(terminal, clock)
    bar.expect(10)
    bar.expect(None)
    clock.now += 4
    bar(6000)
    assert terminal.getvalue().endswith("aidiag: read 5.86 KiB, 1.46 KiB/s")


def test_short_work_and_other_streams_show_nothing() -> None:
    """A file, a pipe, CI: not a byte."""
    terminal, file, clock = Terminal(), io.StringIO(), Clock()
    for stream in (terminal, file):
        bar = Progress(stream, clock)
        bar(1 << 30)
        bar.erase()
    bar = Progress(file, clock)
    clock.now += 60
    bar(1 << 30)
    bar.erase()
    assert terminal.getvalue() == file.getvalue() == ""


def test_a_file_that_grew_is_not_over_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than all is all; a narrow terminal cuts the line."""
    monkeypatch.setenv("COLUMNS", "30")
    terminal, clock = Terminal(), Clock()
    bar = Progress(terminal, clock)
    bar.expect(1000)
    clock.now += 2
    bar(2000)
    assert terminal.getvalue() == "\r\x1b[K" + "aidiag: reading [####################] 100%"[:29]
