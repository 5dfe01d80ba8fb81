"""Helper processes for calls that may never return."""

from aidiag.collectors.helper.helper import Helper, abandoned_count
from aidiag.collectors.helper.pool import HelperPool

__all__ = ["Helper", "HelperPool", "abandoned_count"]
