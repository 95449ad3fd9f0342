"""Pods are placed as kube-scheduler places them, and refused in its words."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from genolewm_assets_tests.servers.kubernetes.nodes import Node
from genolewm_assets_tests.servers.kubernetes.quantities import Amounts, amounts
from genolewm_assets_tests.servers.kubernetes.scheduler import place, refusals
from genolewm_assets_tests.servers.kubernetes.shipped import some_nodes

TAINTED = "node(s) had untolerated taint {nvidia.com/gpu: present}"
UNMATCHED = "node(s) didn't match Pod's node affinity/selector"
TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
H100: dict[str, Any] = {
    "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
    "tolerations": [TOLERATION],
}


def ready_nodes() -> list[Node]:
    nodes = some_nodes()
    for node in nodes:
        node.is_ready = True
    return nodes


def pod(cpu: str = "1", gpus: str = "", **spec: Any) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": gpus} if gpus else {}
    return {"containers": [{"resources": {"requests": {"cpu": cpu, "memory": "1Gi"}, "limits": limits}}], **spec}


def affinity(*terms: list[dict[str, Any]]) -> dict[str, Any]:
    selector = {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}


def unused(_: Node) -> Amounts:
    return {}


def fitting(spec: dict[str, Any]) -> list[str]:
    return [node.name for node in ready_nodes() if not refusals(spec, node, {})]


def test_a_pod_that_asks_for_nothing_special_may_go_to_an_untainted_gpu_node() -> None:
    assert fitting(pod()) == ["cpu-1", "l40s-1"]
    assert fitting(pod(tolerations=[TOLERATION])) == ["cpu-1", "h100-1", "l40s-1"]
    assert fitting(pod(tolerations=[{"operator": "Exists"}])) == ["cpu-1", "h100-1", "l40s-1"]
    assert fitting(pod(tolerations=[{**TOLERATION, "effect": "NoExecute"}])) == ["cpu-1", "l40s-1"]
    assert fitting(pod(tolerations=[{"key": "nvidia.com/gpu", "value": "present"}])) == ["cpu-1", "h100-1", "l40s-1"]
    assert fitting(pod(tolerations=[{"key": "nvidia.com/gpu", "value": "absent"}])) == ["cpu-1", "l40s-1"]


def test_affinity_terms_are_alternatives_and_expressions_of_one_are_not() -> None:
    present = {"key": "nvidia.com/gpu.present", "operator": "Exists"}
    l40s = {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["NVIDIA-L40S"]}
    without = {"key": "nvidia.com/gpu.product", "operator": "DoesNotExist"}
    other = {"key": "nvidia.com/gpu.product", "operator": "NotIn", "values": ["NVIDIA-L40S"]}
    assert fitting(pod(affinity=affinity([without]))) == ["cpu-1"]
    assert fitting(pod(affinity=affinity([present, l40s]))) == ["l40s-1"]
    assert fitting(pod(affinity=affinity([without], [l40s]))) == ["cpu-1", "l40s-1"]
    assert fitting(pod(affinity=affinity([other]))) == ["cpu-1"]
    assert fitting(pod(affinity=affinity([]))) == []


def test_a_card_is_given_once() -> None:
    (node,) = [node for node in ready_nodes() if node.name == "h100-1"]
    assert refusals(pod(gpus="1", **H100), node, {}) == []
    assert refusals(pod(gpus="1", **H100), node, amounts({"nvidia.com/gpu": "1"})) == ["Insufficient nvidia.com/gpu"]
    assert refusals(pod(cpu="33", gpus="2", **H100), node, {}) == ["Insufficient cpu", "Insufficient nvidia.com/gpu"]
    assert refusals(pod(cpu="500m"), Node("full", {"cpu": "500m", "memory": "2Gi"}, is_ready=True), {}) == []


def test_the_least_used_node_is_taken() -> None:
    used = {"cpu-1": amounts({"cpu": "2"})}
    found = place(pod(), ready_nodes(), lambda node: used.get(node.name, {}))
    assert isinstance(found, Node)
    assert found.name == "l40s-1"


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ("cordoned", "1 node(s) were unschedulable"),
        ("lost", "1 node(s) had untolerated taint {node.kubernetes.io/unreachable: }"),
    ],
)
def test_the_message_counts_what_each_node_refused(broken: str, reason: str) -> None:
    nodes = ready_nodes()
    nodes[1].cordoned, nodes[1].is_ready = broken == "cordoned", broken != "lost"
    told = place(pod(gpus="1", **H100), nodes, unused)
    assert told == (
        f"0/3 nodes are available: {', '.join(sorted([reason, f'2 {UNMATCHED}']))}. "
        "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    )


def test_the_message_of_a_card_in_use_and_of_a_taint() -> None:
    told = place(pod(gpus="1", **H100), ready_nodes(), lambda node: {"nvidia.com/gpu": Fraction(node.name == "h100-1")})
    assert told == (
        f"0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 2 {UNMATCHED}. preemption: 0/3 nodes are available: "
        "1 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling."
    )
    untolerating = pod(nodeSelector=H100["nodeSelector"])
    assert f"1 {TAINTED}, 2 {UNMATCHED}" in str(place(untolerating, ready_nodes(), unused))
