from collections.abc import Callable

import pytest

from aidiag.collectors.observation import Event
from aidiag.collectors.subject import rank

Read = Callable[..., list[Event]]

TRACEBACK = '''\
Traceback (most recent call last):
  File "/code/train.py", line 88, in <module>
    main()
  File "/code/model.py", line 12, in forward
    return torch.matmul(a, b)
           ^^^^^^^^^^^^^^^^^^
  File "/venv/lib/python3.11/site-packages/torch/functional.py", line 99, in matmul
    return x
ValueError: shapes 3: 4
'''  # fmt: skip

TABLE = """\
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-11-30_20:18:31
  host      : node-b
  rank      : 3 (local_rank: 1)
  exitcode  : -15 (pid: 4712)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 4712
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-30_20:18:29
  host      : node-b
  rank      : 2 (local_rank: 0)
  exitcode  : -9 (pid: 4711)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 4711
============================================================
"""

STALL = """\
[2026-11-30 20:18:29.123456: W /horovod/stall_inspector.cc:107] One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting for remainder of ranks for more than 60 seconds. This may indicate that
Missing ranks:
1: [DistributedOptimizer.dense, DistributedOptimizer.bias ...]
3!: [DistributedOptimizer.dense]
step 12
"""


def labelled(text: str, label: str) -> list[str]:
    """The lines of a text with a label before each."""
    return [label + line for line in text.splitlines()]


def test_a_traceback_gives_its_exception_and_the_users_deepest_frame(read: Read) -> None:
    """Frames of libraries are passed over, evidence is the line with the exception."""
    (event,) = read("before\n" + TRACEBACK + "after\n")
    assert event.kind == "python_exception"
    assert {name: event.fields[name] for name in ("type", "text", "file", "line", "function")} == {
        "type": "ValueError",
        "text": "shapes 3: 4",
        "file": "/code/model.py",
        "line": 12,
        "function": "forward",
    }
    assert event.place is not None
    assert (event.place.line, event.place.text) == (10, "ValueError: shapes 3: 4")


OUT_OF_MEMORY = '''\
Traceback (most recent call last):
  File "/code/train.py", line 88, in train
    self.step(batch)
  File "/venv/lib/python3.11/site-packages/lib/loss.py", line 12, in loss_of
    loss = F.cross_entropy(logits, labels)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/venv/lib/python3.11/site-packages/torch/nn/functional.py", line 99, in cross_entropy
    return torch._C._nn.cross_entropy_loss(
torch.OutOfMemoryError: CUDA out of memory.
'''  # fmt: skip


def raised(events: list[Event]) -> dict[str, object]:
    """What the traceback among some events says."""
    return dict(next(event.fields for event in events if event.kind == "python_exception"))


@pytest.mark.parametrize("before", ["", "[rank1]: ", "trainer_1  | ", "ERROR 03-04 10:23:58 engine.py:400] "])
@pytest.mark.parametrize("torn", [0, 1, 3])
def test_a_traceback_tells_which_code_asked_for_memory(read: Read, before: str, torn: int) -> None:
    """The deepest call outside of torch with what it called there, behind any prefix, also where the first lines are gone."""
    lines = OUT_OF_MEMORY.splitlines(keepends=True)[torn:]
    fields = raised(read("".join(before + line for line in lines)))
    assert fields["innermost"] == "loss_of: loss = F.cross_entropy(logits, labels) cross_entropy"
    assert fields["functions"] == "train loss_of cross_entropy"[0 if torn < 3 else 6 :]
    assert fields["about"] == "memory"


def test_an_exception_of_another_sort_is_not_about_memory(read: Read) -> None:
    """Only what tells of memory is."""
    assert "about" not in raised(read(TRACEBACK))


def test_a_frame_within_a_traceback_opens_no_second_one(read: Read) -> None:
    """One traceback, one exception."""
    assert [event.kind for event in read(OUT_OF_MEMORY)].count("python_exception") == 1


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('the user asks: what is "OSError: [Errno 24] Too many open files" about', []),
        ('OSError: [Errno 24] Too many open files: "/data/x"', ["open_files_exhausted"]),
        ('{"message": "OSError: [Errno 24] Too many open files"}', ["open_files_exhausted"]),
        ('it ended with "Too many open files"', ["open_files_exhausted"]),
    ],
)
def test_a_message_that_prose_quotes_is_no_event(read: Read, line: str, told: list[str]) -> None:
    """Generated text and requests quote errors; JSON and other programs' words of an error do not."""
    assert [event.kind for event in read(line + "\n")] == told


def test_tracebacks_of_two_ranks_that_interleave_stay_apart(read: Read) -> None:
    """Each block takes the lines with its own label."""
    other = TRACEBACK.replace("model.py", "loss.py").replace("ValueError", "KeyError")
    mixed = [
        line
        for pair in zip(labelled(TRACEBACK, "[rank3]: "), labelled(other, "[rank5]: "), strict=True)
        for line in pair
    ]
    events = read("\n".join(mixed) + "\n")
    assert [(event.subject, event.fields["type"], event.fields["file"]) for event in events] == [
        (rank(3, host="", job="j"), "ValueError", "/code/model.py"),
        (rank(5, host="", job="j"), "KeyError", "/code/loss.py"),
    ]


def test_a_traceback_that_another_one_interrupts_has_no_frame(read: Read) -> None:
    """Without labels the frames of two processes cannot be told apart."""
    lines = TRACEBACK.splitlines()
    (event,) = read("\n".join([*lines[:4], *lines]) + "\n")
    assert event.fields["type"] == "ValueError"
    assert "file" not in event.fields


def test_a_chain_of_exceptions_gives_each_of_them(read: Read) -> None:
    """The cause comes first."""
    link = "\nThe above exception was the direct cause of the following exception:\n\n"
    events = read(TRACEBACK + link + TRACEBACK.replace("ValueError: shapes 3: 4", "RuntimeError"))
    assert [(event.fields["type"], event.fields.get("text")) for event in events] == [
        ("ValueError", "shapes 3: 4"),
        ("RuntimeError", None),
    ]


@pytest.mark.parametrize("label", ["", "[rank3]: ", "[1,3]<stderr>:", "2026-11-30T20:18:39.5Z stderr F "])
def test_messages_within_a_traceback_are_found_too(read: Read, label: str) -> None:
    """The exception of an out-of-memory error is both an exception and the out of memory."""
    text = TRACEBACK.replace(
        "ValueError: shapes 3: 4", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    )
    events = read("\n".join(labelled(text, label)) + "\n")
    assert [event.kind for event in events] == ["python_exception", "cuda_out_of_memory"]
    assert events[0].subject == events[1].subject


@pytest.mark.parametrize(
    "log",
    [
        "Traceback (most recent call last):\n",
        "Traceback (most recent call last):\nnot a frame\n",
        TRACEBACK.replace("ValueError: shapes 3: 4", "--- something else ---"),
        "Traceback (most recent call last):\n" + "    line\n" * 3000 + "ValueError: x\n",
    ],
)
def test_half_a_traceback_says_nothing(read: Read, log: str) -> None:
    """A block that never ends, or ends in something else, is dropped; at most its last line is an error of its own."""
    assert [event for event in read(log) if event.kind != "error_printed"] == []


@pytest.mark.parametrize("label", ["", "[default0]:", "2026-11-30T20:18:39.5Z stderr F ", "\x1b[31m"])
def test_the_failure_table_gives_each_worker(read: Read, label: str) -> None:
    """Rank, host, exit code, signal and time of every entry, and which came first on its host."""
    events = read("\n".join(labelled(TABLE, label)) + "\n")
    assert [
        (event.subject, event.fields["exit_code"], event.fields["signal"], event.fields["pid"], event.fields["first"])
        for event in events
    ] == [
        (rank(3, host="node-b", job="j"), -15, "SIGTERM", 4712, False),
        (rank(2, host="node-b", job="j"), -9, "SIGKILL", 4711, True),
    ]
    assert events[0].unix is not None
    assert events[1].unix == events[0].unix - 2
    assert events[1].place is not None
    assert events[1].place.line == 18
    assert "exitcode  : -9 (pid: 4711)" in events[1].place.text


def test_the_failure_table_under_srun(read: Read) -> None:
    """Labels that are bare numbers are recognised by the lines around them."""
    around = [f"{n}: step" for n in range(4)]
    events = read("\n".join([*around, *labelled(TABLE, "1: "), *around]) + "\n")
    assert [event.subject for event in events] == [rank(3, host="node-b", job="j"), rank(2, host="node-b", job="j")]


def test_a_table_that_is_cut_off_gives_what_it_has(read: Read) -> None:
    """The log may end in the middle of the last entry."""
    events = read(TABLE.split("  error_file")[0])
    assert [event.fields["rank"] for event in events] == [3]
    assert read("Failures:\nall of them\nRoot Cause (first observed failure):\nnone\n") == []


def test_horovods_stall_report_names_the_missing_ranks(read: Read) -> None:
    """The list of ranks follows on lines of its own."""
    (event,) = read(STALL)
    assert (event.kind, event.fields["ranks"], event.fields["seconds"]) == ("collective_stalled", "1 3", 60)
    assert event.fields["tensor"] == "DistributedOptimizer.dense"
    (alone,) = read(STALL.splitlines()[0] + "\n")
    assert "ranks" not in alone.fields
