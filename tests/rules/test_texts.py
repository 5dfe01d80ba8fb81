"""Templates and the forms of numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aidiag.rules.expression.tree import TEXT, Type
from aidiag.rules.expression.units import SECONDS, Dimension
from aidiag.rules.texts import faults, in_language, render

VALUES = {
    "share": 0.614,
    "step": 0.2,
    "workers": 4.0,
    "loader": "train",
    "size": 1.5 * 1024**3,
    "none": None,
    "on": True,
}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{share:percent} of {loader}", "61 % of train"),
        ("{workers:count} workers, {step:seconds}", "4 workers, 200 ms"),
        ("{size:bytes} {{loader={loader}}}", "1.5 GiB {loader=train}"),
        ("{none:percent} {on}", "unknown yes"),
        ("no field", "no field"),
        ("{absent}", "unknown"),
    ],
)
def test_render(template: str, text: str) -> None:
    """Values are filled in in their form; what is not known is said to be unknown."""
    assert text == render(template, VALUES)


@pytest.mark.parametrize(
    ("form", "value", "text"),
    [
        ("seconds", 0.0, "0 s"), ("seconds", 2.5e-5, "25 µs"), ("seconds", 0.0123, "12.3 ms"), ("seconds", 12.34, "12.3 s"),
        ("seconds", 200.0, "3 min 20 s"), ("seconds", 7500.0, "2 h 5 min"),
        ("percent", 0.0123, "1.2 %"), ("percent", 0.996, "100 %"), ("percent", 0.0, "0 %"),
        ("bytes", 64 * 1024.0**2, "64 MiB"), ("bytes", 100.0, "100 B"), ("bytes", 3e13, "27.3 TiB"),
        ("rate", 12.5e9, "12.5 GB/s"), ("count", 16384.0, "16,384"),
        ("number", 3.0, "3"), ("number", 0.12345, "0.123"), ("number", 123456.7, "123457"), ("number", 1.5e9, "1.5e+09"),
        ("number", -2.25, "-2.25"),
    ],
)  # fmt: skip
def test_forms(form: str, value: float, text: str) -> None:
    """Numbers have few digits and a unit that suits their size."""
    assert text == render(f"{{value:{form}}}", {"value": value})


def test_faults_of_templates() -> None:
    """Unknown names, forms that do not fit the unit, and single braces are told with their place."""
    types = {"share": Type("number"), "step": Type("number", SECONDS), "loader": TEXT}

    assert [] == faults("{share:percent} {step:seconds} {loader} {{}}", types)
    found = faults("{shar} {step:percent} {share:pct} }", types)
    assert [0, 7, 22, 34] == [offset for _, _, offset in found]
    assert ["did you mean share?", "write {step:seconds}"] == [hint for _, hint, _ in found[:2]]
    assert [] == faults("{speed:any}", {"speed": Type("number", Dimension(bytes=1, seconds=-1))})


def test_languages() -> None:
    """A regional language falls back to its own, then to English."""
    text = {"en": "late", "zh": "迟到"}

    assert ["迟到", "迟到", "late", "late"] == [in_language(text, key) for key in ("zh", "zh_CN", "de", "en")]
    assert "未知" == render("{none}", VALUES, "zh")


@given(st.text(max_size=50), st.dictionaries(st.text("abc_", min_size=1, max_size=3), st.text(max_size=5)))
def test_nothing_but_names_is_interpreted(template: str, values: dict[str, str]) -> None:
    """Whatever a template or a value holds, rendering never fails and never reads an attribute."""
    assert isinstance(render(template, values), str)
    assert "{x.y} {0} {x!r}" == render("{x.y} {0} {x!r}", {"x": "secret"})
