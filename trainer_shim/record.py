"""Records, as other rooms use them: what a record says, and how to read one. Writing one is the shim's own business."""

from __future__ import annotations

from .layout import FILE_BYTES, MAJOR, MINOR, PHASES, ROLES, STAGES
from .model import Identity, LoaderRecord, Note, Record, RecordError, State, StepRecord
from .owner import FileName, Owner, file_name, lives, parse_file_name, this_process
from .reader import RecordReader, read_record

__all__ = [
    "FILE_BYTES",
    "MAJOR",
    "MINOR",
    "PHASES",
    "ROLES",
    "STAGES",
    "FileName",
    "Identity",
    "LoaderRecord",
    "Note",
    "Owner",
    "Record",
    "RecordError",
    "RecordReader",
    "State",
    "StepRecord",
    "file_name",
    "lives",
    "parse_file_name",
    "read_record",
    "this_process",
]
