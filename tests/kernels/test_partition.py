"""Every kernel gives the same bits however its range is shared out.

A program runs operations of all families with compiled kernels wrapped: each call of one is made whole, then
again in 2, 3 and 8 pieces, the last piece first. What it wrote must be the same to the bit. Kernels that no
operation reached would be a hole in the test, so they are named.
"""

from __future__ import annotations

import json

import pytest

from ..process import finish, start

PROGRAM = """
    import importlib
    import json
    import pathlib
    import numpy as np
    import tapegrad as tg
    import tapegrad.kernels
    from tapegrad import kernels
    from tapegrad.kernels import jit, launch

    seen, wrong, near, launched = set(), set(), set(), set()

    def side_by_side(given, arrays, before):
        # The arguments with arrays, as they were before, that follow on one another in memory; None if some share memory.
        given_arrays = [a for a in given if isinstance(a, np.ndarray)]
        apart = all(not np.may_share_memory(a, b) for i, a in enumerate(given_arrays) for b in given_arrays[:i])
        if not apart or not all(a.flags.c_contiguous for a in given_arrays):
            return None
        whole = np.zeros(sum(a.nbytes + 8 for a in given_arrays) + 64, np.uint8)
        at = -whole.ctypes.data % 64
        contents = {id(a): b for a, b in zip(arrays, before)}
        moved = []
        for a in given:
            if isinstance(a, np.ndarray):
                b = np.ndarray(a.shape, a.dtype, whole, at)
                b[...] = contents.get(id(a), a)
                at += -(-a.nbytes // 8) * 8
                a = b
            moved.append(a)
        return moved

    compile_one = jit.Kernel._compile

    def compiled(kernel, chars):
        entry = compile_one(kernel, chars)
        names = kernel.fn.__code__.co_varnames

        def check_distance(given, arrays, before, expected, start, stop):
            # Loops that see that their arrays lie close together may be other loops than those that work on vectors.
            moved = side_by_side(given, arrays, before)
            if moved is not None:
                entry(*moved, start, stop)
                ids = [id(a) for a in arrays]
                close = [m for m, a in zip(moved, given) if id(a) in ids]
                if any(a.tobytes() != e.tobytes() for a, e in zip(close, expected)):
                    near.add(kernel.label)

        def checked(*args):
            *given, start, stop = args
            # The contents of scratch memory are nobody's result.
            arrays = [a for a, name in zip(given, names) if isinstance(a, np.ndarray) and name != "acc" and not name.startswith("scratch")]
            before = [a.copy() for a in arrays]
            entry(*args)
            expected = [a.copy() for a in arrays]
            check_distance(given, arrays, before, expected, start, stop)
            if stop - start < 2:
                return
            seen.add(kernel.label)
            for parts in (2, 3, 8):
                for a, b in zip(arrays, before):
                    if a.flags.writeable:
                        a[...] = b
                for part in reversed(range(parts)):
                    first = start + (stop - start) * part // parts
                    last = start + (stop - start) * (part + 1) // parts
                    if first < last:
                        entry(*given, first, last)
                if any(a.tobytes() != e.tobytes() for a, e in zip(arrays, expected)):
                    wrong.add(kernel.label)

        kernel.entries[chars] = checked
        return checked

    jit.Kernel._compile = compiled

    run = launch.run

    def watched(kernel, chars, args, count, work):
        launched.add(kernel.label)
        run(kernel, chars, args, count, work)

    launch.run = watched
    F = tg.nn.functional
    rng = np.random.default_rng(0)

    def draw(*shape, dtype="float32", low=0.2, high=1.8):
        return tg.from_numpy(rng.uniform(low, high, shape).astype(dtype)).requires_grad_()

    def whole(high, *shape):
        return tg.from_numpy(rng.integers(0, high, shape))

    def work(function, *inputs):
        out = function(*inputs)
        for o in out if isinstance(out, (tuple, list)) else [out]:
            if o.requires_grad:
                o.backward(tg.ones(*o.shape, dtype=o.dtype), retain_graph=True)

    def of_one_type(x):
        # Kernels that are one per element type.
        for axis in (0, 1):
            work(lambda a: F.softmax(a, axis), x(30, 140))
            work(lambda a: F.log_softmax(a, axis), x(30, 140))
        # A single row lies close to the next array.
        for function in (F.softmax, F.log_softmax, F.normalize, tg.logsumexp, tg.var, tg.cumsum):
            work(lambda a: function(a, dim=-1), x(1, 40))
        work(lambda a: F.layer_norm(a, (40,)), x(1, 40))
        for reduction in ("mean", "none"):
            work(lambda a: F.cross_entropy(a, whole(14, 30), reduction=reduction), x(30, 14))

    of_one_type(lambda *shape: draw(*shape, dtype="float64"))
    x = draw
    of_one_type(x)
    # elementwise, in several layouts
    work(lambda a, b: (a * b + a.exp()).tanh(), x(13, 7), x(13, 7))
    work(lambda a, b: a * b, x(13, 7), x(7))
    work(lambda a: (a.t() * 2).exp(), x(13, 7))
    work(lambda a: a[:, ::2].sigmoid(), x(13, 7))
    work(lambda a: a.t().contiguous(), x(300, 301))
    # reductions and scans
    for axis in (None, 0, 1, 2, (0, 2)):
        for name in ("sum", "mean", "amax", "var", "logsumexp", "norm", "prod", "std"):
            if axis is None and name in ("logsumexp",) or name == "prod" and type(axis) is tuple:
                continue
            args = () if axis is None else (None, axis) if name == "norm" else (axis,)
            work(lambda a: getattr(a, name)(*args), x(9, 11, 40))
    for axis in (0, 1, 2):
        for name in ("max", "argmax", "cumsum", "cumprod", "cummax", "logcumsumexp", "sort", "median"):
            work(lambda a: getattr(a, name)(axis), x(9, 11, 40))
    for name in ("sum", "prod", "amax", "amin"):
        work(lambda a: getattr(a, name)(1), x(2, 150_000))
    work(lambda a: a.sum(0), x(9000, 3))
    for n in (2, 3, 5, 8):  # many short rows
        for name in ("sum", "prod", "amax", "norm", "logsumexp", "max", "argmin", "cumsum", "cumprod", "any"):
            args = (None, 1) if name == "norm" else (1,)
            work(lambda a: getattr(a, name)(*args), x(5000, n))
    work(lambda a: a.argmax(), x(90, 100))
    work(lambda a: a.sort(1), x(30, 50))
    sort, cut = tapegrad.ops.sort, tapegrad.ops.sort._cut
    sort._cut = lambda lanes, n: True
    work(lambda a: a.sort(0), x(3000, 2))
    sort._cut = cut
    work(lambda a: a.topk(3), x(9, 40))
    work(lambda a: a.topk(3, largest=False), x(9, 40))
    work(lambda a: a.kthvalue(3), x(9, 40))
    # softmax, classes, norms
    labels = whole(14, 30)
    for reduction in ("mean", "none"):
        work(lambda a: F.cross_entropy(a, labels, reduction=reduction), x(30, 14))
        work(lambda a, w: F.nll_loss(a, labels, w, reduction=reduction), x(30, 14), x(14).detach())
        work(lambda a, w: F.cross_entropy(a, labels, w, label_smoothing=0.1, reduction=reduction), x(30, 14), x(14).detach())
    work(lambda a, w, b: F.layer_norm(a, (300,), w, b), x(50, 300), x(300), x(300))
    work(lambda w, b: F.layer_norm(x(50, 300).detach(), (300,), w, b), x(300), x(300))
    work(lambda a: F.rms_norm(a, (300,)), x(50, 300))
    for shape in ((5, 6, 7, 3), (5, 6, 90, 50), (40, 6), (40, 600)):
        c = shape[1]
        mean, var = x(c).detach(), x(c).detach()
        work(lambda a, w, b: F.batch_norm(a, mean, var, w, b, training=True), x(*shape), x(c), x(c))
        work(lambda a, w, b: F.batch_norm(a, mean, var, w, b), x(*shape), x(c), x(c))
        work(lambda a, w, b: F.group_norm(a, 3, w, b), x(*shape), x(c), x(c))
    # products, convolutions, windows
    work(lambda a, b: a @ b.t(), x(40, 50), x(300, 50))
    work(lambda a, b: a @ b, x(130, 140), x(140, 150))
    work(lambda a, b: a @ b, x(20, 40, 50), x(20, 50, 60))
    work(F.linear, x(200, 90), x(100, 90), x(100))
    work(F.linear, x(20, 9), x(10, 9), x(10))
    for stride, groups in ((1, 1), (2, 1), (1, 2)):
        work(lambda a, w, b: F.conv2d(a, w, b, stride=stride, padding=1, groups=groups), x(3, 4, 12, 9), x(6, 4 // groups, 3, 3), x(6))
    work(lambda a, w: F.conv2d(a, w, padding=1), x(3, 4, 7, 7), x(64, 4, 3, 3))
    work(lambda a, w, b: F.conv2d(a, w, b, padding=1), x(20, 32, 7, 7), x(72, 32, 3, 3), x(72))  # over panels
    for outs in (1, 2, 3, 9):
        work(lambda a, w: F.conv1d(a, w), x(3, 4, 50), x(outs, 4, 3))
    work(lambda a, w: F.conv_transpose2d(a, w, stride=2), x(3, 4, 6, 5), x(4, 6, 3, 3))
    work(lambda a: F.unfold(a, 3), x(3, 4, 12, 9))
    work(lambda a: F.fold(a, (12, 9), 3), x(3, 36, 70))
    for pool in (F.max_pool2d, F.avg_pool2d):
        work(lambda a: pool(a, 2), x(3, 4, 12, 9))
        work(lambda a: pool(a, 3, stride=1, padding=1), x(3, 4, 12, 9))
    work(lambda a: F.max_pool2d(a, 3, dilation=2), x(3, 4, 12, 9))
    work(lambda a: F.adaptive_avg_pool2d(a, (5, 4)), x(3, 4, 12, 9))
    work(lambda a: F.adaptive_max_pool2d(a, (5, 4)), x(3, 4, 12, 9))
    def unpooled(a):
        made, places = F.max_pool2d(a, 2, return_indices=True)
        return F.max_unpool2d(made, places, 2)
    work(unpooled, x(3, 4, 12, 8))
    work(lambda a: F.interpolate(a, scale_factor=1.7, mode="bilinear"), x(3, 4, 12, 9))
    # indexing
    index = whole(13, 50)
    work(lambda a: a[index], x(13, 7))
    work(lambda a: a.gather(0, whole(13, 20, 7)), x(13, 7))
    for dim, shape in ((0, (5, 7)), (1, (13, 5))):
        work(lambda a, b: a.scatter(dim, whole(7, *shape), b), x(13, 7), x(*shape))
        work(lambda a, b: a.scatter_add(dim, whole(7, *shape), b), x(13, 7), x(*shape))
    work(lambda a, b: a.index_add(0, index, b), x(13, 7), x(50, 7))
    work(lambda a, b: a.index_copy(0, tg.arange(5), b), x(13, 7), x(5, 7))
    work(lambda a: a.index_fill(0, index, 3.0), x(13, 7))
    work(lambda a: a.index_select(1, whole(7, 20)), x(13, 7))
    work(lambda a: a.take_along_dim(whole(13, 20, 7), 0), x(13, 7))
    work(lambda a: a[a > 1], x(13, 7))
    work(lambda a: a.masked_fill(a > 1, 2.0), x(13, 7))
    work(lambda a: a.masked_select(a > 1), x(13, 7))
    work(lambda a: a[whole(13, 30), whole(7, 30)], x(13, 7))
    work(lambda a: a.tril() + a.triu(1), x(13, 7))
    for how in ("sum", "prod", "amax", "amin", "mean"):
        work(lambda a, b: a.scatter_reduce(1, whole(7, 13, 5), b, how), x(13, 7), x(13, 5))
        work(lambda a, b: a.index_reduce(0, tg.arange(5), b, how), x(13, 7), x(5, 7)) if how != "sum" else None
    work(lambda w: F.embedding(index, w), x(13, 7))
    work(lambda w: F.embedding(index, w, padding_idx=2, scale_grad_by_freq=True), x(13, 7))
    F.one_hot(index, 13)
    work(lambda a: a.unfold(0, 3, 2), x(13, 7))
    work(lambda a: a[index - 13], x(13, 7))
    work(lambda a: F.max_pool2d(a, 2, dilation=3, padding=1), x(3, 4, 12, 9))
    # what only recorded steps use
    tg.compile(lambda a: a.sort(1)[0])(x(13, 7).detach())
    tg.compile(lambda a, i: (a[i], a.take_along_dim(i)))(x(13, 7).detach(), index)
    def filter_gradient(a, w):
        return tg.autograd.grad(F.conv2d(a, w, padding=1).sum(), [w])
    tg.compile(filter_gradient)(x(3, 4, 12, 9), x(6, 4, 3, 3))
    tg.compile(lambda a: tg.autograd.grad(a.unfold(1, 3, 2).sum(), [a]))(x(13, 7))
    tg.compile(lambda a, i: tg.autograd.grad(a[i].sum(), [a]))(x(13, 7), index)
    work(lambda a: a.take(whole(91, 40)), x(13, 7))
    work(lambda a: a.nonzero(), x(13, 7))
    def put(a, b):
        a = a * 1
        a[index] = b
        a[a > 1] = 0.0
        return a
    work(put, x(13, 7), x(50, 7))
    work(lambda w: F.embedding(index, w, padding_idx=1, scale_grad_by_freq=True), x(13, 7))
    F.one_hot(index)
    # what is done while a step is recorded
    def recorded(function, *inputs):
        tg.compile(function)(*inputs)
    weight = x(6, 4, 3, 3)
    recorded(lambda a: tg.autograd.grad(F.conv2d(a, weight, padding=1).sum(), weight)[0], x(3, 4, 12, 9))
    recorded(lambda a: tg.autograd.grad(a.unfold(1, 3, 2).sum(), a)[0], x(13, 7))
    recorded(lambda a, i: (a[i], a.take_along_dim(i, 0)), x(13), whole(13, 20) - 13)
    plain = x(13, 7).detach()
    plain[plain > 1] = 0.0
    work(lambda a: tg.searchsorted(a.detach().sort(1)[0], a.detach()), x(13, 7))
    work(lambda a: tg.bucketize(a.detach(), tg.linspace(0, 2, 9, dtype=a.dtype)), x(13, 7))
    # losses over sequences, random numbers, optimizers
    lengths = tg.tensor([9, 8, 9])
    def ctc(a):
        return F.ctc_loss(a.log_softmax(2), whole(4, 3, 4) + 1, lengths, tg.tensor([4, 3, 2]), reduction="none")
    work(ctc, x(9, 3, 5))
    tg.rand(50000, dtype=tg.float32), tg.randn(50000, dtype=tg.float32), tg.randint(0, 9, (50000,))
    tg.rand(50000, dtype=tg.float64), tg.randn(50000, dtype=tg.float64)
    tg.randperm(50000), tg.bernoulli(x(500, 70).detach() / 2), tg.poisson(x(50, 70).detach())
    kernels.random.words(np.empty(5000, np.uint32), 5000, 1, 2, 3, 0.0, 0.0, 0, 5000 // 64 + 1)
    tg.multinomial(x(20, 70).detach(), 5), tg.multinomial(x(20, 70).detach(), 500, replacement=True)
    work(lambda a: F.dropout(a, 0.4), x(500, 70))
    work(lambda a: F.dropout2d(a, 0.4), x(300, 300, 2, 2))
    tg.empty(500, 70).bernoulli_(0.3)
    for name in ("SGD", "Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adagrad", "Adadelta", "RMSprop", "Rprop", "ASGD"):
        for more in ({}, {"momentum": 0.9} if name == "SGD" else {"amsgrad": True} if name == "Adam" else {}):
            w = x(50, 70).detach().half().requires_grad_()  # float16 is stepped in a copy, by a call that is seen here
            optimizer = getattr(tg.optim, name)([w], lr=0.01, **more)
            for _ in range(2):
                w.grad = x(50, 70).detach().half()
                optimizer.step()

    found = {}
    for path in pathlib.Path(tapegrad.kernels.__file__).parent.glob("*.py"):
        module = importlib.import_module(f"tapegrad.kernels.{path.stem}") if path.stem != "__init__" else tapegrad.kernels
        for name, value in vars(module).items():
            for k in value.values() if isinstance(value, dict) else [value]:
                if isinstance(k, jit.Kernel) and not k.generated:
                    found[k.label] = k
    print(json.dumps([sorted(wrong), sorted(near), sorted(set(found) - seen), sorted(launched), len(seen)]))
"""


# Small pieces of work that are always done whole, by the thread that needs them.
WHOLE = {
    "classes.class_totals",
    "index.bounds",
    "index.coordinates",
    "index.places",
    "index.row_factors",
    "norm_whole.normalize_planes_grad",
    "random.shuffle",
    "rows.count_up",
    "rows.examine",
    "small.column_sums",
}


@pytest.mark.slow
def test_every_kernel_under_any_partition() -> None:
    out, err = finish(start(PROGRAM, env={"TAPEGRAD_NUM_THREADS": "1"}), timeout=400)
    wrong, near, missed, launched, count = json.loads(out)
    assert not set(wrong) - WHOLE, err
    assert not near, err
    assert not set(missed) - WHOLE
    assert not set(launched) & WHOLE
    assert count > 100
