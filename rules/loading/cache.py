"""Parsed rules kept between runs, so that a new process need not read YAML and check expressions again.

One file in the user's cache folder holds them by a hash of what they were made from: the text of the rule file, the
registry, and the code that parsed it. What was made from anything else can therefore not be found. A file that is
damaged, or that is not this user's own, is ignored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import msgspec

import aidiag
from aidiag.collectors.bounded import read_bounded
from aidiag.collectors.signal import Registry
from aidiag.collectors.user_cache import write_cache
from aidiag.rules.model import Rule

LARGEST_BYTES = 16 << 20
MOST_RULES = 512
_CODE = Path(__file__).resolve().parents[1]
_MAGIC = b"aidiag rules 1\n"
_DIGEST = 16

Kept = dict[bytes, msgspec.Raw]
"""Rules as they lie in the cache, by their keys. Only those in use are decoded: earlier versions cost next to nothing."""

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Rule)


def origin(registry: Registry) -> bytes:
    """A hash of all that decides what a rule file means, beside its text."""
    digest = hashlib.blake2b(aidiag.__version__.encode(), digest_size=_DIGEST)
    for source in sorted([*_CODE.glob("*.py"), *_CODE.glob("expression/*.py"), *_CODE.glob("loading/*.py")]):
        digest.update(source.read_bytes())
    for name, signal in sorted(registry.signals.items()):
        digest.update(repr((name, signal.type, signal.unit, signal.scope, signal.labels)).encode())
    for name, kind in sorted(registry.events.items()):
        digest.update(repr((name, kind.scope, kind.fields)).encode())
    return digest.digest()


def key_of(content: bytes, made_with: bytes) -> bytes:
    """The key of a rule file."""
    return hashlib.blake2b(content, key=made_with, digest_size=_DIGEST).digest()


def encoded(rule: Rule) -> msgspec.Raw:
    """A rule as it is kept."""
    return msgspec.Raw(_ENCODER.encode(rule))


def decoded(kept: msgspec.Raw) -> Rule | None:
    """The rule that was kept, None where it is damaged."""
    try:
        return _DECODER.decode(kept)
    except msgspec.MsgspecError:
        return None


def load(folder: Path) -> Kept:
    """The rules in the cache, none where it cannot be trusted."""
    try:
        content = read_bounded(folder / "rules.cache", LARGEST_BYTES, ours=True)
    except OSError:
        return {}
    head = len(_MAGIC) + _DIGEST
    body = content[head:]
    if content[:head] != _MAGIC + hashlib.blake2b(body, digest_size=_DIGEST).digest():
        return {}
    try:
        return msgspec.msgpack.decode(body, type=Kept)
    except msgspec.MsgspecError:
        return {}


def save(folder: Path, rules: Kept, used: Iterable[bytes]) -> None:
    """Put rules into the cache, those in `used` first if there are too many. Where it cannot be written, nothing."""
    order = dict.fromkeys([*used, *rules])
    kept = {key: rules[key] for key in list(order)[:MOST_RULES] if key in rules}
    body = _ENCODER.encode(kept)
    content = _MAGIC + hashlib.blake2b(body, digest_size=_DIGEST).digest() + body
    write_cache(folder / "rules.cache", content)
