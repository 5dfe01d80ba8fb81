"""Reading typed values out of a document, gathering what is wrong instead of stopping at the first fault."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from aidiag.rules.expression.errors import ExpressionError, did_you_mean
from aidiag.rules.expression.parsing import Names, parse, parse_condition
from aidiag.rules.expression.tree import Expression
from aidiag.rules.expression.units import SECONDS, read_quantity
from aidiag.rules.loading.document import Document, Route
from aidiag.rules.loading.errors import RuleError
from aidiag.rules.texts import ENGLISH, Text


class Reader:
    """Reads one document. A value that is not acceptable is noted in `errors` and replaced by a harmless one."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.errors: list[RuleError] = []

    def fault(self, route: Route, message: str, remedy: str = "", *, at_key: bool = False, offset: int = 0) -> None:
        """Note what is wrong at a value."""
        self.errors.append(self.document.error(route, message, remedy, at_key=at_key, offset=offset))

    def value(self, route: Route) -> Any:
        """The raw value at a route, None where there is none."""
        found = self.document.data
        for part in route:
            try:
                found = found[part]
            except (KeyError, IndexError, TypeError):
                return None
        return found

    def known_keys(self, route: Route, known: Collection[str]) -> bool:
        """Whether the value is a mapping; unknown keys in it are faults."""
        found = self.value(route)
        if not isinstance(found, dict):
            self.fault(route, "keys and values are expected here")
            return False
        for key in found:
            if key not in known:
                hint = did_you_mean(key, known) or f"known keys: {', '.join(sorted(known))}"
                self.fault((*route, key), "unknown key", hint, at_key=True)
        return True

    def text(self, route: Route, default: str | None = None) -> str:
        """A plain text; required where there is no default."""
        found = self.value(route)
        if found is None and default is not None:
            return default
        if isinstance(found, str) and found.strip():
            return found.strip()
        if isinstance(found, int | float) and not isinstance(found, bool):
            return str(found)
        self._missing_or(route, "a text is expected here")
        return ""

    def choice(self, route: Route, options: Sequence[str], default: str | None = None) -> Any:
        """One word of a list."""
        found = self.value(route)
        if found is None and default is not None:
            return default
        if found in options:
            return found
        hint = did_you_mean(str(found), options) or f"one of {', '.join(options)}"
        self._missing_or(route, f"{found!r} is not known here", hint)
        return options[0]

    def truth(self, route: Route, default: bool) -> bool:
        """true or false."""
        found = self.value(route)
        if found is None:
            return default
        if not isinstance(found, bool):
            self.fault(route, "true or false is expected here")
        return found is True

    def ratio(self, route: Route, default: float) -> float:
        """A number from 0 to 1."""
        found = self.value(route)
        if found is None:
            return default
        if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found <= 1:
            self.fault(route, "a number from 0 to 1 is expected here")
            return default
        return float(found)

    def duration(self, route: Route, default: float) -> float:
        """A duration with its unit, in seconds."""
        found = self.value(route)
        if found is None:
            return default
        try:
            quantity = read_quantity(found)
        except ExpressionError as error:
            self.fault(route, error.message, error.hint)
            return default
        if (quantity.dimension != SECONDS and quantity.value) or quantity.value < 0:
            self.fault(route, "a duration is expected here", "write 30s")
            return default
        return quantity.value

    def words(self, route: Route) -> tuple[str, ...]:
        """A list of texts, or one text."""
        found = self.value(route)
        if found is None:
            return ()
        if isinstance(found, str):
            return (found,)
        if isinstance(found, list) and all(isinstance(item, str) for item in found):
            return tuple(found)
        self.fault(route, "a list of texts is expected here")
        return ()

    def mapping(self, route: Route) -> dict[str, Any]:
        """Keys and values, none where nothing stands there."""
        found = self.value(route)
        if found is None:
            return {}
        if isinstance(found, dict):
            return found
        self.fault(route, "keys and values are expected here")
        return {}

    def items(self, route: Route) -> list[Any]:
        """A list, empty where nothing stands there."""
        found = self.value(route)
        if found is None:
            return []
        if isinstance(found, list):
            return found
        self.fault(route, "a list is expected here")
        return []

    def languages(self, route: Route, *, required: bool = False) -> Text:
        """A text by language; a plain text is English."""
        found = self.value(route)
        if found is None and not required:
            return {}
        if isinstance(found, str) and found.strip():
            return {ENGLISH: found.strip()}
        if isinstance(found, dict) and all(isinstance(text, str) for text in found.values()):
            if found.get(ENGLISH, "").strip():
                return {language: text.strip() for language, text in found.items()}
            self.fault(route, "English is missing", f"add {ENGLISH}:")
            return {}
        self._missing_or(route, "a text, or a text by language, is expected here")
        return {}

    def expression(self, route: Route, names: Names, *, condition: bool) -> Expression | None:
        """An expression, None where there is none or it is wrong."""
        found = self.value(route)
        if found is None:
            return None
        if isinstance(found, bool | int | float):
            found = str(found).lower()
        if not isinstance(found, str):
            self.fault(route, "an expression is expected here")
            return None
        try:
            return parse_condition(found, names) if condition else parse(found, names, rooted=False)
        except ExpressionError as error:
            self.fault(route, error.message, error.hint, offset=error.offset)
            return None

    def _missing_or(self, route: Route, message: str, remedy: str = "") -> None:
        if self.value(route) is None and route:
            self.fault(route[:-1], f"{route[-1]} is missing", f"add {route[-1]}:")
        else:
            self.fault(route, message, remedy)
