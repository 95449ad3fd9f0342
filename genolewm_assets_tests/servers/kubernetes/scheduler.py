"""Placing a pod: the filters of kube-scheduler in their order, and its words where no node fits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from genolewm_assets_tests.servers.kubernetes.nodes import Node
from genolewm_assets_tests.servers.kubernetes.quantities import Amounts, requested


def place(spec: Mapping[str, Any], nodes: Sequence[Node], used: Callable[[Node], Amounts]) -> Node | str:
    """Return the node with the fewest pods' resources that fits, or the message of a pod that no node fits.

    Parameters
    ----------
    spec
        Of the pod.
    used
        Returns what the pods of a node have been given.
    """
    refused: Counter[str] = Counter()
    preemption: Counter[str] = Counter()
    fitting: list[Node] = []
    for node in nodes:
        reasons = refusals(spec, node, used(node))
        refused.update(reasons)
        if not reasons:
            fitting.append(node)
        elif reasons[0].startswith("Insufficient"):
            preemption["No preemption victims found for incoming pod"] += 1
        else:
            preemption["Preemption is not helpful for scheduling"] += 1
    if fitting:
        return min(fitting, key=lambda node: used(node).get("cpu", Fraction(0)))
    available = f"0/{len(nodes)} nodes are available"
    return f"{available}: {_told(refused)}. preemption: {available}: {_told(preemption)}."


def _told(counts: Counter[str]) -> str:
    return ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))


def refusals(spec: Mapping[str, Any], node: Node, used: Amounts) -> list[str]:
    """Return why a node does not fit: the words of the first filter that refuses it; empty if it fits."""
    tolerations = spec.get("tolerations") or []
    if not node.is_ready:
        return ["node(s) had untolerated taint {node.kubernetes.io/unreachable: }"]
    if node.cordoned:
        return ["node(s) were unschedulable"]
    for taint in node.taints:
        if taint["effect"] != "PreferNoSchedule" and not any(_tolerates(each, taint) for each in tolerations):
            return [f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"]
    if not _selected(spec, node.labels):
        return ["node(s) didn't match Pod's node affinity/selector"]
    offered = node.offered
    return [
        f"Insufficient {name}"
        for name, amount in sorted(requested(spec).items())
        if amount > offered.get(name, Fraction(0)) - used.get(name, Fraction(0))
    ]


def _tolerates(toleration: Mapping[str, str], taint: Mapping[str, str]) -> bool:
    if toleration.get("effect") not in (None, taint["effect"]):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return toleration.get("key") in (None, taint["key"])
    return (toleration.get("key"), toleration.get("value", "")) == (taint["key"], taint.get("value", ""))


def _selected(spec: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    if not (spec.get("nodeSelector") or {}).items() <= labels.items():
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    # One of the terms has to match, with all of its expressions; a term without any matches nothing.
    return required is None or any(
        term.get("matchExpressions") and all(_matches(each, labels) for each in term["matchExpressions"])
        for term in required["nodeSelectorTerms"]
    )


def _matches(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = expression["key"], expression.get("values") or []
    return bool(
        {
            "Exists": key in labels,
            "DoesNotExist": key not in labels,
            "In": labels.get(key) in values,
            "NotIn": labels.get(key) not in values,
        }[expression["operator"]]
    )
