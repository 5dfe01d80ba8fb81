"""Which subjects a signal can be read for, seen from another subject."""

from __future__ import annotations

from collections.abc import Collection

from aidiag.collectors.subject import SubjectKind

ABOVE: dict[SubjectKind, tuple[SubjectKind, ...]] = {
    "job": ("job",),
    "host": ("host", "job"),
    "rank": ("rank", "host", "job", "gpu"),
    "gpu": ("gpu", "host", "job"),
    "port": ("port", "host", "job"),
    "nic": ("nic", "host", "job"),
    "link": ("link",),
}
"""For each kind of subject the kinds whose one subject it belongs to. A rank has its GPU (label `gpu` of rank_info)."""

PARENT: dict[SubjectKind, SubjectKind] = {
    "host": "job", "rank": "job", "gpu": "host", "port": "host", "nic": "host",
}  # fmt: skip
"""What the siblings of a subject have in common."""


def unreachable(scopes: Collection[SubjectKind], seen_from: SubjectKind) -> SubjectKind | None:
    """The first of `scopes` that a subject of kind `seen_from` has not exactly one of, None where it has all."""
    return next((scope for scope in scopes if scope not in ABOVE[seen_from]), None)


def member_kind(scopes: Collection[SubjectKind], rule_scope: SubjectKind) -> SubjectKind | None:
    """The kind of subject that an expression over these scopes is evaluated for in a group.

    None where no single kind sees them all.
    """
    if rule_scope in scopes and unreachable(scopes, rule_scope) is None:
        return rule_scope
    if rule_scope == "rank" and set(scopes) == {"gpu"}:  # the GPUs of the ranks, not those of the host
        return "rank"
    return next((scope for scope in ABOVE if scope in scopes and unreachable(scopes, scope) is None), None)
