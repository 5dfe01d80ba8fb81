"""A rule's texts where no value has been measured: `{name}` and `{name:format}` in them cannot be filled in.

A runbook page and an alert are written before a fault. A page shows the name of the value, an alert shows the label of
its series where there is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from aidiag.rules.expression.tree import Expression
from aidiag.rules.texts import ENGLISH, Text, in_language, render

LABELS = {
    "who": "{{ $labels.scope }} {{ $labels.target }}",
    "rank": "{{ with $labels.rank }}{{ . }}{{ else }}{{ $labels.target }}{{ end }}",
    "ranks": "{{ with $labels.rank }}{{ . }}{{ else }}{{ $labels.target }}{{ end }}",
    "host": "{{ $labels.node }}",
    "hosts": "{{ $labels.node }}",
    "job": "{{ $labels.job_id }}",
    "targets": "{{ $labels.target }}",
}
"""What an alert shows for the names that every text knows (rules.texts.BUILT_IN)."""

_OPEN, _CLOSE = "\ue000", "\ue001"  # around a name, while the text is on its way to a template


class _Names(Mapping[str, str]):
    """Gives every name itself, marked."""

    def __getitem__(self, name: str) -> str:
        return f"{_OPEN}{name}{_CLOSE}"

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def for_page(text: Text) -> str:
    """The English text for Markdown: each placeholder as `⟨name⟩`."""
    return render(in_language(text, ENGLISH), _Names()).replace(_OPEN, "⟨").replace(_CLOSE, "⟩")


def for_alert(text: Text | str) -> str:
    """The English text as a Go template, in which Prometheus or Grafana fill in what the series' labels know."""
    english = text if isinstance(text, str) else in_language(text, ENGLISH)
    marked = go_text(render(english, _Names()))
    return re.sub(f"{_OPEN}(.*?){_CLOSE}", lambda found: LABELS.get(found[1], f"⟨{found[1]}⟩"), marked)


def source_line(expression: Expression) -> str:
    """A condition as its rule file writes it, on one line."""
    return " ".join(expression.source.split())


def go_text(text: str) -> str:
    """A Go template that yields the text as it is.

    `${` is guarded too: where Grafana provisions alerts from a file it would be taken for an environment variable.
    """
    return re.sub(rf"\{{\{{|\}}\}}|\$+(?=[{{}}{_OPEN}])", lambda found: '{{ "' + found[0] + '" }}', text)
