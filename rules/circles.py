"""Circles in a graph: sets of nodes that all lead to each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def circles(edges: Sequence[Sequence[int]], starts: Iterable[int]) -> list[list[int]]:
    """The nodes that can be reached from `starts`, those that lead to each other together; most are alone.

    Whatever a circle leads to comes before it. This is Tarjan's algorithm, without recursion, in linear time:
    https://en.wikipedia.org/wiki/Tarjan%27s_strongly_connected_components_algorithm
    """
    found: list[list[int]] = []
    seen: dict[int, int] = {}
    lowest: dict[int, int] = {}
    open_nodes: list[int] = []
    is_open: set[int] = set()
    for start in starts:
        path = [] if start in seen else [(start, iter(edges[start]))]
        while path:
            node, targets = path[-1]
            if node not in seen:
                seen[node] = lowest[node] = len(seen)
                open_nodes.append(node)
                is_open.add(node)
            for target in targets:
                if target not in seen:
                    path.append((target, iter(edges[target])))
                    break
                if target in is_open:
                    lowest[node] = min(lowest[node], seen[target])
            else:
                path.pop()
                if path:
                    lowest[path[-1][0]] = min(lowest[path[-1][0]], lowest[node])
                if lowest[node] == seen[node]:
                    found.append([])
                    while not found[-1] or found[-1][-1] != node:
                        found[-1].append(open_nodes.pop())
                    is_open.difference_update(found[-1])
    return found
