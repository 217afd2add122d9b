"""NUMBA_DISABLE_JIT=1 runs every kernel as plain Python: slowly, and with the same numbers."""

from __future__ import annotations

import json
import math

from ..process import finish, start

PROGRAM = """
    import json
    import math
    import numpy as np
    import tapegrad as tg
    from tapegrad.kernels import jit

    F = tg.nn.functional
    rng = np.random.default_rng(0)
    def draw(*shape, dtype="float64"):
        return tg.from_numpy(rng.uniform(0.2, 1.8, shape).astype(dtype)).requires_grad_()

    results = {}
    def record(name, function, *inputs):
        out = function(*inputs)
        outs = out if isinstance(out, (tuple, list)) else [out]
        values = [o.detach().double().reshape(-1).tolist() for o in outs]
        live = [o for o in outs if o.requires_grad]
        if live:
            leaves = [x for x in inputs if x.requires_grad]
            found = tg.autograd.grad([o.sum() for o in live], leaves, allow_unused=True)
            values += [g.double().reshape(-1).tolist() for g in found if g is not None]
        results[name] = values

    for dtype in ("float32", "float64"):
        a, b = draw(3, 4, dtype=dtype), draw(3, 4, dtype=dtype)
        for name in "mul div pow atan2 maximum remainder fmod".split():
            record(f"{name} {dtype}", getattr(tg, name), a, b)
        for name in "exp expm1 log log1p sqrt sin cos tan tanh asin sigmoid erf erfinv lgamma digamma floor abs".split():
            record(f"{name} {dtype}", getattr(tg, name), a * 0.5)
        record(f"broadcast {dtype}", lambda x, y: x * y, a, draw(4, dtype=dtype))
        record(f"transposed {dtype}", lambda x: x.t() * 2 + x[:, :3].t().clone(), draw(4, 4, dtype=dtype)[:, :4][:3, :3])
        record(f"number {dtype}", lambda x: 2 * x + x / 3 - 1, a)
    for name in "sum mean prod logsumexp amax amin cumsum cumprod argmax sort".split():
        record(name, lambda x: getattr(x, name)(1), draw(3, 4))
    record("softmax", lambda x: F.softmax(x, 1), draw(3, 4))
    record("cross_entropy", lambda x: F.cross_entropy(x, tg.tensor([1, 0, 3])), draw(3, 4))
    record("index", lambda x: x[tg.tensor([2, 0, 0])], draw(3, 4))
    record("gather", lambda x: x.gather(1, tg.tensor([[0, 1], [3, 3], [2, 0]])), draw(3, 4))
    record("matmul", lambda x, y: x @ y, draw(3, 4), draw(4, 2))
    record("linear", F.linear, draw(3, 4), draw(2, 4), draw(2))
    record("conv", lambda x, w: F.conv2d(x, w, padding=1), draw(1, 2, 5, 5), draw(3, 2, 3, 3))
    record("conv over panels", lambda x, w: F.conv2d(x, w, padding=1), draw(8, 8, 5, 5), draw(8, 8, 3, 3))
    record("max_pool", lambda x: F.max_pool2d(x, 2), draw(1, 2, 4, 4))
    record("layer_norm", lambda x: F.layer_norm(x, (4,)), draw(3, 4))
    record("where", lambda x, y: tg.where(x > y, x, y * 2), draw(3, 4), draw(3, 4))
    record("integers", lambda: [tg.arange(6) // 4, tg.arange(6) % 4, tg.arange(6) ** 2, ~tg.arange(6), tg.arange(6) > 2])
    record("special values", lambda x: [tg.exp(x), tg.log(x), 1 / x, x / x], tg.tensor([0.0, -1.0, math.inf, -math.inf, math.nan, 1e300]))

    w = draw(50)
    optimizer = tg.optim.Adam([w], lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        (w * w).sum().backward()
        optimizer.step()
    results["adam"] = [w.tolist()]

    tg.manual_seed(1)
    results["random"] = [tg.rand(5).tolist(), tg.randn(5).tolist(), tg.randint(10, (5,)).double().tolist(), tg.randperm(5).double().tolist()]

    @tg.elementwise
    def own(x, *, k):
        return tg.where(x > 1, k * x * x, tg.sin(x))
    record("own", lambda x: own(x, k=2.0), draw(5))
    print(jit.PLAIN)
    print(json.dumps(results))
"""


def _close(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=3e-6, abs_tol=1e-7)


def test_plain_python_gives_the_same_numbers() -> None:
    compiled = start(PROGRAM)
    plain = start(PROGRAM, env={"NUMBA_DISABLE_JIT": "1"})
    (text, _), (plain_text, err) = finish(compiled), finish(plain)
    was_plain, expected = text.splitlines()
    is_plain, got = plain_text.splitlines()
    assert (was_plain, is_plain) == ("False", "True")
    assert "RuntimeWarning" not in err, err
    expected, got = json.loads(expected), json.loads(got)
    assert expected.keys() == got.keys()
    for name, values in expected.items():
        assert len(values) == len(got[name]), name
        for a, b in zip(values, got[name], strict=True):
            assert len(a) == len(b), name
            assert all(map(_close, a, b)), f"{name}: {a} compiled, {b} in plain Python"
