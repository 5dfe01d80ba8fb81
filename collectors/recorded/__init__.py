"""The node that answers from a folder."""

from aidiag.collectors.recorded.node import RecordedNode

__all__ = ["RecordedNode"]
