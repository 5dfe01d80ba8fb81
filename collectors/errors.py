"""How reading a source can end, beside success."""

from __future__ import annotations


class CollectorError(Exception):
    """A source could not be read. `reason` says what was seen, `remedy` what would make it readable."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy


class UnavailableError(CollectorError):
    """The source is not on this host (no GPU, no RDMA stack): nothing is amiss."""


class NotPermittedError(CollectorError):
    """The source is here, and this user may not read it."""


class HungError(CollectorError):
    """A call has not returned within its deadline. `seconds` is how long it has been waited for, where that is known."""

    def __init__(self, reason: str, remedy: str = "", seconds: float = 0.0) -> None:
        super().__init__(reason, remedy)
        self.seconds = seconds
