"""Rule texts where no value has been measured yet."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aidiag.grafana.placeholder import LABELS, for_alert, for_page, go_text
from aidiag.rules.texts import BUILT_IN


def test_page_shows_the_names_of_values() -> None:
    """A page shows the value's name without its format, and braces as they are meant."""
    assert "⟨share⟩ of {x} on ⟨host⟩" == for_page({"en": "{share:percent} of {{x}} on {host}", "zh": "…"})


@pytest.mark.parametrize("name", ["rank", "host", "job", "targets", "who"])
def test_alert_fills_what_the_labels_know(name: str) -> None:
    """A name for which the finding's series has a label becomes that label."""
    assert LABELS[name] == for_alert(f"{{{name}}}")
    assert "$labels." in LABELS[name]


def test_alert_marks_what_no_label_knows() -> None:
    """Any other name is shown as a name, not left as a brace that a reader would take for a fault."""
    assert "⟨share⟩ of the step" == for_alert({"en": "{share:percent} of the step"})


def test_names_that_alerts_fill_are_names_of_rule_texts() -> None:
    """Each name with a label is one that the rule language gives to every text."""
    assert LABELS.keys() <= BUILT_IN.keys()


def test_template_signs_of_commands_are_guarded() -> None:
    """Go templates and Grafana's variables in a command do not reach Prometheus or Grafana as such."""
    assert 'docker inspect --format \'{{ "{{" }}.Name{{ "}}" }}\' {{ "$" }}{X}' == for_alert(
        {"en": "docker inspect --format '{{{{.Name}}}}' ${{X}}"}
    )


@given(st.text(alphabet="{}$ a\"'\\x", max_size=30))
def test_guarded_text_comes_back_as_it_was(text: str) -> None:
    """Whatever the text: what a Go template makes of the guarded form is the text, and no `${` is left in it."""
    guarded = go_text(text)
    back, rest = "", guarded
    while rest:
        action, found, after = rest.partition("{{ ")
        assert "{{" not in action
        back += action
        if found:
            quoted, _, rest = after.partition(" }}")
            back += quoted.removeprefix('"').removesuffix('"')
        else:
            rest = ""

    assert back == text
    assert "${" not in guarded
