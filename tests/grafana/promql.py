"""Which labels the answer of a PromQL query can have, found from its text and the table of metrics.

Raises AssertionError where a query names a metric or a label that is not there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import promql_parser as promql

TARGET_LABELS = frozenset({"instance", "job"})
SAME_SERIES = ("topk", "bottomk")
SET_OPERATORS = ("and", "or", "unless")


def substituted(expr: str) -> str:
    """The query with Grafana's variables replaced, as any parser of PromQL reads it."""
    return re.sub(r"\$\w+", lambda name: {"$job_id": "j", "$__rate_interval": "2m", "$__range": "1h"}[name[0]], expr)


def labels_of(expr: str, table: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """The labels of the answer. `table` has the labels of every metric; the target's own come on top."""
    return _labels(promql.parse(substituted(expr)), table)


def _labels(node: Any, table: Mapping[str, frozenset[str]]) -> frozenset[str]:
    match node:
        case promql.VectorSelector():
            assert node.name is not None, node.prettify()
            labels = table[node.name] | TARGET_LABELS
            _among([matcher.name for matcher in node.matchers.matchers], labels, node)
            return labels
        case promql.MatrixSelector():
            return _labels(node.vector_selector, table)
        case promql.Call():
            return next((_labels(argument, table) for argument in node.args), frozenset())
        case promql.AggregateExpr():
            inner = _labels(node.expr, table)
            if node.modifier is None:
                return inner if str(node.op) in SAME_SERIES else frozenset()
            if node.modifier.type == promql.AggModifierType.Without:  # may name what only some targets have
                return inner - frozenset(node.modifier.labels)
            return _among(node.modifier.labels, inner, node)
        case promql.BinaryExpr():
            return _of_two(node, _labels(node.lhs, table), _labels(node.rhs, table))
        case promql.ParenExpr() | promql.SubqueryExpr() | promql.UnaryExpr():
            return _labels(node.expr, table)
        case _:
            return frozenset()


def _of_two(node: Any, left: frozenset[str], right: frozenset[str]) -> frozenset[str]:
    scalar = (promql.NumberLiteral, promql.StringLiteral)
    if isinstance(node.lhs, scalar) or isinstance(node.rhs, scalar):
        return left | right
    modifier = node.modifier
    if modifier is not None and modifier.matching is not None:
        _among(modifier.matching.labels, left, node)
        _among(modifier.matching.labels, right, node)
    if str(node.op) in SET_OPERATORS or modifier is None or modifier.matching is None:
        return left & right if str(node.op) == "or" else left
    if modifier.card == promql.VectorMatchCardinality.ManyToOne:
        return left | _among(modifier.group_labels or (), right, node)
    return frozenset(modifier.matching.labels)


def _among(names: Any, labels: frozenset[str], node: Any) -> frozenset[str]:
    for name in names:
        assert name in labels, f"no label {name} in {node.prettify()}"
    return frozenset(names)
