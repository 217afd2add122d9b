"""nn.utils beside PyTorch's: clipping, vectors, sequences, parametrizations; and weight averaging."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest

import tapegrad as tg

torch = pytest.importorskip("torch")
LIBS = (tg, torch)
RNG = np.random.default_rng(5)


def agree(observe):
    mine, theirs = observe(tg), observe(torch)
    np.testing.assert_equal(flat(mine)[1], flat(theirs)[1])
    np.testing.assert_allclose(flat(mine)[0], flat(theirs)[0], rtol=1e-9, atol=1e-12)


def flat(x):
    """All numbers, and everything else."""
    if hasattr(x, "detach"):
        return np.asarray(x.detach().tolist(), float).reshape(-1), [tuple(x.shape)]
    if isinstance(x, (list, tuple)):
        parts = [flat(v) for v in x]
        return np.concatenate([p[0] for p in parts] or [np.zeros(0)]), [v for p in parts for v in p[1]]
    if isinstance(x, float):
        return np.array([x]), []
    return np.zeros(0), [x]


def tensor(lib, values, grad=False):
    return lib.tensor(np.asarray(values, float).tolist(), dtype=lib.float64, requires_grad=grad)


def test_clipping():
    arrays = [RNG.normal(size=(3, 4)), RNG.normal(size=5)]

    def grads(lib):
        params = [tensor(lib, a, True) for a in arrays]
        for p, a in zip(params, arrays, strict=True):
            p.grad = tensor(lib, 3 * a)
        return [*params, lib.tensor(1.0, requires_grad=True)]

    for order in (2.0, 1.0, 3, math.inf, 0.0):
        for limit in (0.5, 1000.0):

            def observe(lib, order=order, limit=limit):
                params = grads(lib)
                total = lib.nn.utils.clip_grad_norm_(params, limit, norm_type=order)
                return total, [p.grad for p in params[:2]]

            agree(observe)

    def by_value(lib):
        params = grads(lib)
        lib.nn.utils.clip_grad_value_(params, 0.7)
        return [p.grad for p in params[:2]], lib.nn.utils.get_total_norm([p.grad for p in params[:2]])

    agree(by_value)
    bad = tg.tensor([1.0], requires_grad=True)
    bad.grad = tg.tensor([math.nan])
    with pytest.raises(RuntimeError, match="non-finite"):
        tg.nn.utils.clip_grad_norm_(bad, 1.0, error_if_nonfinite=True)
    assert math.isnan(tg.nn.utils.clip_grad_norm_([bad], 1.0).item())
    assert tg.nn.utils.clip_grad_norm_([tg.ones(1, requires_grad=True)], 1.0).item() == 0


def test_clipping_float32_gradients_gives_float32():
    p = tg.ones(3, requires_grad=True)
    p.grad = tg.full((3,), 2.0)
    assert tg.nn.utils.clip_grad_norm_([p], 1.0).dtype is tg.float32
    assert p.grad.norm().item() == pytest.approx(1.0, rel=1e-5)


def test_vectors():
    def observe(lib):
        params = [tensor(lib, np.arange(6).reshape(2, 3), True), tensor(lib, [7.0, 8.0], True)]
        vector = lib.nn.utils.parameters_to_vector(params)
        (vector * vector).sum().backward()
        new = tensor(lib, np.arange(8) * 10)
        lib.nn.utils.vector_to_parameters(new, params)
        new[0] = 5.0
        return vector, [p.grad for p in params], params

    agree(observe)
    with pytest.raises(TypeError):
        tg.nn.utils.vector_to_parameters([1.0], [])


SEQUENCES = [RNG.normal(size=(n, 2)) for n in (3, 5, 1, 4)]


def test_padding_and_packing():
    def observe(lib, **options):
        rnn = lib.nn.utils.rnn
        items = [tensor(lib, s, True) for s in SEQUENCES]
        padded = rnn.pad_sequence(items, batch_first=True, padding_value=-1.0)
        left = rnn.pad_sequence(items, padding_side="left")
        packed = rnn.pack_sequence(items, enforce_sorted=False)
        back, lengths = rnn.pad_packed_sequence(packed, total_length=7, padding_value=9.0)
        (back[:5] * back[:5]).sum().backward()
        return [
            padded,
            left,
            list(packed),
            back,
            lengths,
            rnn.unpack_sequence(packed),
            rnn.unpad_sequence(padded, lengths, batch_first=True),
            [s.grad for s in items],
        ]

    agree(observe)

    def lengths_first(lib):
        rnn = lib.nn.utils.rnn
        x = tensor(lib, RNG_PADDED)
        packed = rnn.pack_padded_sequence(x, [4, 3, 1], batch_first=True)
        return (
            list(packed[:2]),
            packed.sorted_indices is None,
            rnn.pad_packed_sequence(packed, batch_first=True),
        )

    agree(lengths_first)


RNG_PADDED = RNG.normal(size=(3, 4, 2))


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize("both_ways", [False, True])
@pytest.mark.parametrize("with_state", [False, True])
def test_recurrent_layers_over_packed_sequences(kind, both_ways, with_state):
    reference = getattr(torch.nn, kind)(2, 3, 2, bidirectional=both_ways).double()
    state = RNG.normal(size=(4 if both_ways else 2, len(SEQUENCES), 3))

    def observe(lib):
        layer = getattr(lib.nn, kind)(2, 3, 2, bidirectional=both_ways).double()
        layer.load_state_dict({k: tensor(lib, v.numpy()) for k, v in reference.state_dict().items()})
        items = [tensor(lib, s, True) for s in SEQUENCES]
        packed = lib.nn.utils.rnn.pack_sequence(items, enforce_sorted=False)
        h = tensor(lib, state)
        hx = () if not with_state else ((h, h * 0.5),) if kind == "LSTM" else (h,)
        out, last = layer(packed, *hx)
        padded, _ = lib.nn.utils.rnn.pad_packed_sequence(out)
        last = last if isinstance(last, tuple) else (last,)
        ((padded * padded).sum() + sum((s * s * s).sum() for s in last)).backward()
        return padded, last, [s.grad for s in items], [p.grad for p in layer.parameters()]

    agree(observe)


@pytest.mark.parametrize(
    "call",
    [
        lambda rnn, lib: rnn.pack_padded_sequence(lib.ones(3, 2, 1), [1, 2]),
        lambda rnn, lib: rnn.pack_padded_sequence(lib.ones(3, 2, 1), [2, 0]),
        lambda rnn, lib: rnn.pack_padded_sequence(lib.ones(3, 2, 1), [2]),
        lambda rnn, lib: rnn.pad_packed_sequence(rnn.pack_sequence([lib.ones(3)]), total_length=2),
        lambda rnn, lib: rnn.pad_sequence([]),
        lambda rnn, lib: rnn.pad_sequence([lib.ones(1)], padding_side="top"),
    ],
)
def test_sequence_errors(call):
    for lib in LIBS:
        with pytest.raises((RuntimeError, ValueError)):
            call(lib.nn.utils.rnn, lib)


# -- parametrizations


def linear(lib):
    layer = lib.nn.Linear(3, 4).double()
    with lib.no_grad():
        layer.weight.copy_(tensor(lib, WEIGHT))
        layer.bias.zero_()
    return layer


WEIGHT = RNG.normal(size=(4, 3))
INPUT = RNG.normal(size=(5, 3))


@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_norm(dim):
    def observe(lib):
        layer = lib.nn.utils.parametrizations.weight_norm(linear(lib), dim=dim)
        out = layer(tensor(lib, INPUT))
        (out * out).sum().backward()
        names = list(layer.state_dict())
        grads = [p.grad for p in layer.parameters()]
        layer.parametrizations.weight.original0.data.mul_(2.0)
        doubled = layer.weight
        lib.nn.utils.parametrize.remove_parametrizations(layer, "weight")
        return out, names, grads, doubled, repr(layer), type(layer).__name__, layer.weight

    agree(observe)


def test_spectral_norm():
    u, v = RNG.normal(size=4), RNG.normal(size=3)

    def observe(lib):
        layer = lib.nn.utils.parametrizations.spectral_norm(linear(lib))
        held = layer.parametrizations.weight[0]
        with lib.no_grad():
            held._u.copy_(tensor(lib, u / np.linalg.norm(u)))
            held._v.copy_(tensor(lib, v / np.linalg.norm(v)))
        x = tensor(lib, INPUT)
        first, second = layer(x), layer(x)
        (first * second).sum().backward()
        trained = [p.grad for p in layer.parameters()]
        layer.eval()
        return first, second, trained, list(layer.state_dict()), held._u, layer(x), repr(layer)

    agree(observe)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("which", ["weight_norm", "spectral_norm"])
def test_the_older_forms(which):
    def observe(lib):
        layer = getattr(lib.nn.utils, which)(linear(lib))
        if which == "spectral_norm":
            layer.weight_u.copy_(tensor(lib, np.full(4, 0.5)))
            layer.weight_v.copy_(tensor(lib, np.full(3, 3**-0.5)))
        out = layer(tensor(lib, INPUT))
        (out * out).sum().backward()
        names = [n for n, _ in layer.named_parameters()], list(layer.state_dict())
        grads = [p.grad for p in layer.parameters()]
        getattr(lib.nn.utils, "remove_" + which)(layer)
        return out, names, grads, [n for n, _ in layer.named_parameters()], layer.weight

    agree(observe)


def symmetric(lib, inverse=True):
    class Symmetric(lib.nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).transpose(-1, -2)

        if inverse:

            def right_inverse(self, x):
                return x.triu()

    return Symmetric()


def test_own_parametrizations():
    def observe(lib):
        z = lib.nn.utils.parametrize
        layer = lib.nn.Linear(3, 3, bias=False).double()
        with lib.no_grad():
            layer.weight.copy_(tensor(lib, np.arange(9.0).reshape(3, 3)))
        z.register_parametrization(layer, "weight", symmetric(lib))
        first = layer.weight
        with lib.no_grad():
            layer.weight = first * 2
        second = layer.weight
        with z.cached():
            same = layer.weight is layer.weight
        parametrized = z.is_parametrized(layer), z.is_parametrized(layer, "bias")
        text = repr(layer)
        z.register_parametrization(layer, "weight", lib.nn.ReLU())
        third = layer.weight
        twin = copy.deepcopy(layer)
        original = layer.parametrizations.weight.original
        z.remove_parametrizations(layer, "weight", leave_parametrized=False)
        return (
            first,
            second,
            same,
            parametrized,
            text,
            third,
            original,
            type(layer).__name__,
            layer.weight,
            repr(twin),
        )

    agree(observe)


def test_a_copy_of_a_parametrized_module_is_independent():
    z = tg.nn.utils.parametrize
    layer = tg.nn.Linear(3, 3)
    z.register_parametrization(layer, "weight", symmetric(tg))
    twin = copy.deepcopy(layer)
    z.remove_parametrizations(twin, "weight")
    assert twin.weight.tolist() == layer.weight.tolist()
    assert type(twin) is tg.nn.Linear
    assert z.is_parametrized(layer)


def test_parametrization_errors():
    def wider(lib):
        class Wider(lib.nn.Module):
            def forward(self, x):
                return x[:1]

        return Wider()

    for call in (
        lambda lib: lib.nn.utils.parametrize.register_parametrization(
            lib.nn.Linear(2, 2), "nope", lib.nn.ReLU()
        ),
        lambda lib: lib.nn.utils.parametrize.register_parametrization(
            lib.nn.Linear(2, 2), "weight", wider(lib)
        ),
        lambda lib: lib.nn.utils.parametrize.remove_parametrizations(lib.nn.Linear(2, 2), "weight"),
        lambda lib: lib.nn.utils.parametrizations.spectral_norm(lib.nn.ReLU()),
        lambda lib: lib.nn.utils.parametrizations.spectral_norm(lib.nn.Linear(2, 2), n_power_iterations=0),
    ):
        for lib in LIBS:
            with pytest.raises(ValueError):
                call(lib)
    layer = tg.nn.Linear(2, 2)
    tg.nn.utils.parametrize.register_parametrization(layer, "weight", symmetric(tg, inverse=False))
    with pytest.raises(RuntimeError, match="right_inverse"):
        layer.weight = tg.ones(2, 2)
    with pytest.raises(RuntimeError, match="state_dict"):
        pickle.dumps(layer)


# -- averages


@pytest.mark.parametrize("kind", ["swa", "ema", "own", "multi"])
@pytest.mark.parametrize("use_buffers", [False, True])
def test_averaged_models(kind, use_buffers):
    def observe(lib):
        swa = lib.optim.swa_utils
        model = lib.nn.Sequential(linear(lib), lib.nn.BatchNorm1d(4).double())
        options = {
            "swa": {},
            "ema": {"avg_fn": swa.get_ema_avg_fn(0.8)},
            "own": {"avg_fn": lambda a, c, n: a + c / (n + 1)},
            "multi": {"multi_avg_fn": swa.get_ema_multi_avg_fn(0.9)},
        }[kind]
        average = swa.AveragedModel(model, use_buffers=use_buffers, **options)
        for _ in range(3):
            model(tensor(lib, INPUT))
            with lib.no_grad():
                for p in model.parameters():
                    p.add_(1.0)
            average.update_parameters(model)
        state = list(average.state_dict())
        swa.update_bn([tensor(lib, INPUT), [tensor(lib, 2 * INPUT)]], average)
        return state, list(average.parameters()), list(average.buffers()), average(tensor(lib, INPUT))

    agree(observe)
