"""The node that answers from this machine."""

from aidiag.collectors.live.node import LiveNode

__all__ = ["LiveNode"]
