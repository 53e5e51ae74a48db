"""The graph attention layer against numbers of PyTorch Geometric's GATConv, and against plain torch."""

from __future__ import annotations

import json

import numpy as np
import pytest
from shared_data import DATA

torch = pytest.importorskip("torch", reason="needs the extra rl")

from tracekit.sim.agents.graph_attention import GraphAttention, targets_first  # noqa: E402
from tracekit.sim.agents.inference_gat import heads_of  # noqa: E402


@pytest.fixture(scope="module")
def check():
    path = DATA.parent / "checks" / "gat.json"
    if not path.is_file():
        pytest.skip("needs checks/gat.json beside the shared data")
    return json.loads(path.read_text())


def layer_of(check, kind):
    layer = GraphAttention(check["in_dim"], check["out_per_head"], check["heads"]).to(kind)
    with torch.no_grad():
        for name, values in check["weights"].items():
            getattr(layer, {"lin.weight": "weight"}.get(name, name)).copy_(torch.tensor(values, dtype=kind))
    return layer


@pytest.mark.parametrize(("kind", "close"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_output_attention_and_gradients_are_those_of_gatconv(check, kind, close):
    layer, x = layer_of(check, kind), torch.tensor(check["x"], dtype=kind)
    edges = torch.tensor(check["edges"])
    first, source, order = targets_first(edges, check["N"])
    out, weight = layer.attended(x, first, source)
    np.testing.assert_allclose(out.detach(), check["output"], rtol=0, atol=close)
    ours = {tuple(edges[o].tolist()): weight[i].tolist() for i, o in enumerate(order)}
    ours |= {(i, i): weight[len(order) + i].tolist() for i in range(check["N"])}
    assert len(ours) == len(check["attention"])
    for row in check["attention"]:
        np.testing.assert_allclose(ours[row["src"], row["dst"]], row["alpha"], rtol=0, atol=close)
    out.square().sum().backward()
    for name, expected in check["grad_of_sum_sq"].items():
        found = getattr(layer, {"lin.weight": "weight"}.get(name, name)).grad
        # 1e-6 of the largest gradient in float32: these are sums of tens
        np.testing.assert_allclose(found, expected, rtol=close, atol=close * max(1.0, np.abs(expected).max()))


def test_without_edges_every_row_sees_itself(check):
    layer, x = layer_of(check, torch.float32), torch.tensor(check["x"])
    first, source, _ = targets_first(torch.empty((0, 2), dtype=torch.long), check["N"])
    out = layer(x.float(), first, source).detach()
    np.testing.assert_allclose(out, check["output_no_edges"], rtol=0, atol=1e-6)


def plain(layer, x, edges):
    """The definition in dense torch, by autograd."""
    there = torch.eye(len(x), dtype=torch.bool)
    for s, t in edges:
        there[t, s] = True
    z = (x @ layer.weight.t()).view(len(x), layer.heads, layer.size)
    logit = (z * layer.att_src).sum(-1)[None] + (z * layer.att_dst).sum(-1)[:, None]  # target, source, head
    weight = torch.nn.functional.leaky_relu(logit, 0.2).masked_fill(~there[..., None], -torch.inf).softmax(1)
    out = torch.einsum("tsh,shc->thc", weight, z)
    return (out.flatten(1) if layer.concat else out.mean(1)) + layer.bias


@pytest.mark.parametrize("concat", [True, False])
@pytest.mark.parametrize("heads", [1, 3])
def test_any_graph_equals_the_dense_definition(heads, concat):
    rng = np.random.default_rng(heads)
    torch.manual_seed(heads)
    layer = GraphAttention(4, 2, heads, concat=concat).double()
    pairs = {(int(s), int(t)) for s, t in rng.integers(0, 9, (30, 2))}  # self-loops among them, which change nothing
    x = torch.tensor(rng.normal(size=(9, 4)), requires_grad=True)
    first, source, _ = targets_first(torch.tensor(sorted(pairs)), 9)
    ours, theirs = layer(x, first, source), plain(layer, x, pairs)
    torch.testing.assert_close(ours, theirs)
    goal = torch.tensor(rng.normal(size=ours.shape))
    inputs = (x, *layer.parameters())
    found = [torch.autograd.grad((values * goal).sum(), inputs) for values in (ours, theirs)]
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b)


def test_packed_graphs_do_not_see_each_other():
    torch.manual_seed(0)
    layer, x = GraphAttention(3, 2, 2), torch.randn(5, 3)
    one = targets_first(torch.tensor([[0, 1]]), 2)[:2]
    both = targets_first(torch.tensor([[0, 1], [2, 4], [3, 4]]), 5)[:2]
    assert torch.equal(layer(x[:2], *one), layer(x, *both)[:2])


def test_heads_leave_eight_numbers_each():
    assert [heads_of(width) for width in (1, 8, 16, 20, 32, 64, 128)] == [1, 1, 2, 2, 4, 8, 8]
