"""What commands about GPUs, links and services answer."""

import io

import pytest

from aidiag.collectors.logs import read_log


def told(text: str, kind: str) -> list[dict[str, object]]:
    """The fields of the events of a kind, without where they come from."""
    own = ("message", "severity")
    events = read_log(io.BytesIO(text.encode()), source="host.txt")
    return [
        {key: value for key, value in event.fields.items() if key not in own} for event in events if event.kind == kind
    ]


def test_rows_of_a_query_are_readings_by_its_heading() -> None:
    """Each row is a reading; the slowdown is worded from the reasons that are active; other lines end the table."""
    text = (
        "$ nvidia-smi --query-gpu=index,temperature.gpu,clocks_event_reasons.sw_thermal_slowdown --format=csv\n"
        "index, temperature.gpu, clocks_event_reasons.sw_thermal_slowdown\n"
        "0, 61, Not Active\n1, 91, Active\n$ uptime, load, 3\n"
    )
    assert told(text, "gpu_reading") == [
        {"index": 0, "temperature": 61},
        {"index": 1, "temperature": 91, "slowdown": "software_thermal"},
    ]


def test_rows_without_a_heading_are_read_by_the_command() -> None:
    """With noheader the columns are those of the command."""
    text = "$ nvidia-smi --query-gpu=index,clocks.sm,power.draw --format=csv,noheader\n4, 1740 MHz, 655.18 W\n"
    assert told(text, "gpu_reading") == [{"index": 4, "clock": 1740}]


@pytest.mark.parametrize(("third", "state"), [("4", "below_peers"), ("16", None)])
def test_a_link_that_is_narrower_than_those_of_its_peers(third: str, state: str | None) -> None:
    """Where a query does not ask for the width that a link could have, the usual one of the others counts."""
    text = "index, pcie.link.width.current\n0, 16\n1, 16\n2, " + third + "\n3, 16\n"
    rows = told(text, "gpu_reading")
    assert [row.get("link_state") for row in rows] == [None, None, state, None]
    assert rows[2].get("link_width_max") == (16 if state else None)


@pytest.mark.parametrize(
    ("bits", "slowdown"), [("0x4", None), ("0x0000000000000048", "hardware_slowdown hardware_thermal")]
)
def test_a_mask_of_reasons_is_read(bits: str, slowdown: str | None) -> None:
    """The power cap is no slowdown, heat is."""
    rows = told(f"index, clocks_throttle_reasons.active, pcie.link.gen.current\n0, {bits}, 4\n", "gpu_reading")
    assert [row.get("slowdown") for row in rows] == [slowdown]


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("$ systemctl is-active nvidia-fabricmanager\ninactive\n", ["inactive"]),
        (
            "● nvidia-fabricmanager.service - NVIDIA fabric manager service\n     Active: failed (Result: exit-code) since Mon\n",
            ["failed"],
        ),
        ("$ systemctl is-active nvidia-fabricmanager\n$ uptime\n", []),
    ],
)
def test_the_state_of_fabric_manager(text: str, state: list[str]) -> None:
    """Both forms of asking are read; without an answer nothing is known."""
    assert [fields["state"] for fields in told(text, "fabric_manager")] == state


def test_links_are_counted_for_each_gpu() -> None:
    """A GPU with some links inactive is told apart from one with all active."""
    text = (
        "$ nvidia-smi nvlink -s\n"
        "GPU 0: A (UUID: x)\n         Link 0: 25.781 GB/s\n         Link 1: 25.781 GB/s\n"
        "GPU 1: A (UUID: y)\n         Link 0: 25.781 GB/s\n         Link 1: <inactive>\n$ uptime\n"
    )
    assert told(text, "nvlink_links") == [
        {"links": 2, "inactive": 0, "gpu": 0},
        {"links": 2, "inactive": 1, "gpu": 1},
    ]


def test_the_link_of_a_long_query() -> None:
    """Generation and width, the most and the current one."""
    text = (
        "        GPU Link Info\n            PCIe Generation\n                Max                 : 4\n"
        "                Current             : 4\n                Device Current      : 4\n            Link Width\n"
        "                Max                 : 16x\n                Current             : 8x\n"
    )
    assert told(text, "gpu_reading") == [{"link_gen": 4, "link_gen_max": 4, "link_width": 8, "link_width_max": 16}]


@pytest.mark.parametrize(("status", "hangs"), [("rc=124", True), ("rc=0", False), ("exit code: 137", True)])
def test_a_command_that_met_its_limit(status: str, hangs: bool) -> None:
    """Only the status of a command that was ended tells that nvidia-smi hangs."""
    assert bool(told(f"$ timeout 30 nvidia-smi; echo rc=$?\n{status}\n", "gpu_not_answering")) == hangs


@pytest.mark.parametrize(("answer", "count"), [("6", [6]), ("0", [0]), ("$ uptime", [])])
def test_what_grep_counted(answer: str, count: list[int]) -> None:
    """The number on the next line is the answer."""
    assert [one["count"] for one in told(f"$ lspci -vvv | grep -c 'ReqRedir+'\n{answer}\n", "pcie_acs")] == count


def test_an_error_that_somebody_writes_about_is_none() -> None:
    """A quoted error in prose is no error, the same line from the kernel is one."""
    line = "NVRM: Xid (PCI:0000:03:00): 79, GPU has fallen off the bus."
    assert told(f'prompt: Explain "{line}" to a beginner.\n', "xid") == []
    assert len(told(f"[ 12.345678] {line}\n", "xid")) == 1
