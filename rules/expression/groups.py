"""Functions over a group of subjects: the ranks of a job, the GPUs of a host, the hosts of a job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aidiag.collectors.subject import Subject
from aidiag.rules.expression.evaluation import Closure, Evaluation, Frame
from aidiag.rules.expression.tree import Group
from aidiag.rules.undecided import Gap, Undecided, undecided, without


def closure(node: Group, value: Closure, where: Closure | None) -> Closure:
    """The closure of a group function. Members without a value are left out; where none is left it is undecided."""
    fold = FOLDS.get(node.function)
    key = object()

    def group(frame: Frame) -> Any:
        evaluation = frame.evaluation
        root = frame.subject and evaluation.history.related(frame.subject, node.within)
        if root is None:
            raise undecided(node.function, f"{frame.subject or 'it'} belongs to no {node.within} that is known")
        kept = evaluation.groups.get((key, root, frame.binding, evaluation.now))
        if kept is None:
            kept = _looked_up(evaluation, root, frame.binding)
        if kept.__class__ is Undecided:
            raise kept.with_traceback(None)
        return kept

    def _looked_up(evaluation: Evaluation, root: Subject, binding: str | None) -> Any:
        everyone = evaluation.history.members(node.scope, root)
        then = evaluation.for_group(len(everyone))
        kept = None if then is evaluation else then.groups.get((key, root, binding, then.now))
        if kept is None:
            try:
                kept = _found(then, everyone, root, binding)
            except Undecided as reason:
                kept = reason
        for one in (evaluation, then):
            one.groups[key, root, binding, one.now] = kept
        return kept

    def _found(evaluation: Evaluation, everyone: Sequence[Subject], root: Subject, binding: str | None) -> Any:
        members: list[Subject] = []
        values: list[Any] = []
        gaps: list[Gap] = []
        for member in everyone:
            at_member = evaluation.frame(member, binding)
            try:
                if where is None or where(at_member):
                    values.append(value(at_member))
                    members.append(member)
            except Undecided as reason:
                gaps += reason.gaps
        if not values and gaps:
            raise without(gaps)
        if fold is None:
            chosen = [member for member, truth in zip(members, values, strict=True) if truth]
            return ", ".join(sorted((member.name for member in chosen), key=_natural))
        if not values and node.function not in ("count_of", "sum_of"):
            raise undecided(node.function, f"no {node.scope} of {root} is concerned")
        return fold(values)

    return group


def lower_median(values: list[float]) -> float:
    """The median, of an even number the lower one, so that one sick of two stands out."""
    return sorted(values)[(len(values) - 1) // 2]


def _median_distance(values: list[float]) -> float:
    middle = lower_median(values)
    return lower_median([abs(value - middle) for value in values])


FOLDS: dict[str, Callable[[list[Any]], Any]] = {
    "p50_of": lower_median,
    "mad_of": _median_distance,
    "min_of": min,
    "max_of": max,
    "avg_of": lambda values: sum(values) / len(values),
    "sum_of": lambda values: sum(values, 0.0),
    "spread_of": lambda values: max(values) - min(values),
    "count_of": lambda values: float(sum(map(bool, values))),
}


def _natural(name: str) -> tuple[str, int]:
    """gpu2 before gpu10."""
    head = name.rstrip("0123456789")
    return head, int(name[len(head) :] or -1)
