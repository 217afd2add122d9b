"""What programs ask beside the ops: old type names, constants, devices, switches; as in PyTorch without CUDA."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import tapegrad as tg

NAMES = ["Float", "Double", "Half", "Byte", "Char", "Short", "Int", "Long", "Bool"]


@pytest.mark.parametrize("name", NAMES)
def test_typed_tensors_as_pytorch(name):
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle")
    mine, theirs = getattr(tg, f"{name}Tensor"), getattr(torch, f"{name}Tensor")

    def observe(lib, kind):
        seen = []
        for make in (
            lambda: kind([1, 0]),
            lambda: kind([1.5, 0.5]),
            lambda: kind((2, 3)),
            lambda: kind(),
            lambda: kind(np.ones((2, 1))),
            lambda: kind([[1], [2]], device="cpu"),
            lambda: kind(lib.ones(2).to(kind.dtype)),
            lambda: kind(lib.ones(2).to(lib.int64 if name != "Long" else lib.int32)),
            lambda: kind(5.0),
            lambda: kind("a"),
            lambda: kind(2, 3).fill_(1),
            lambda: kind(lib.Size([2])).fill_(1),
            lambda: kind(2, device="cpu").fill_(1),
            lambda: lib.ones(2).type(kind),
            lambda: lib.ones(2).type(f"torch.{name}Tensor"),
            lambda: lib.ones(2).type(f"{name}Tensor"),
        ):
            try:
                made = make()
                seen.append((str(made.dtype).rpartition(".")[2], tuple(made.shape), made.tolist()))
                assert isinstance(made, kind)
            except (TypeError, ValueError) as err:
                seen.append(type(err).__name__)
        return seen

    assert observe(tg, mine) == observe(torch, theirs)


def test_instances():
    assert isinstance(tg.ones(1), tg.FloatTensor)
    assert not isinstance(tg.ones(1), tg.LongTensor)
    assert not isinstance(1.0, tg.FloatTensor)
    assert isinstance(tg.nn.Parameter(tg.ones(1)), tg.FloatTensor)
    assert tg.nn.Linear(2, 2).type(tg.DoubleTensor).weight.dtype == tg.float64
    assert tg.nn.Linear(2, 2).type("tapegrad.HalfTensor").weight.dtype == tg.float16


def test_a_typed_tensor_shares_memory_with_its_argument():
    x = tg.zeros(2)
    tg.FloatTensor(x)[0] = 1
    assert x[0] == 1


@pytest.mark.parametrize("kind", [tg.DoubleTensor, "torch.DoubleTensor", "tapegrad.DoubleTensor"])
def test_set_default_tensor_type(kind):
    try:
        with pytest.warns(UserWarning, match="use set_default_dtype"):
            tg.set_default_tensor_type(kind)
        assert tg.tensor(1.0).dtype == tg.float64
    finally:
        tg.set_default_dtype(tg.float32)
    with pytest.raises(TypeError, match="floating-point"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tg.set_default_tensor_type(tg.LongTensor)


def test_variable_as_pytorch():
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle")

    def observe(lib):
        Variable = lib.autograd.Variable
        x = lib.ones(2, requires_grad=True)
        seen = [isinstance(x, Variable), isinstance(1, Variable)]
        for make in (
            lambda: Variable(lib.ones(2).long()),
            lambda: Variable(lib.ones(2), requires_grad=True),
            lambda: Variable(x),
            lambda: Variable(x * 2, True),
            lambda: Variable(),
            lambda: Variable(data=lib.nn.Parameter(lib.ones(2))),
            lambda: Variable(3),
            lambda: Variable([1.0]),
            lambda: Variable(lib.ones(2).long(), requires_grad=True),
            lambda: Variable(x, foo=1),
        ):
            try:
                made = make()
                seen.append(
                    (
                        str(made.dtype)[-5:],
                        made.tolist(),
                        made.requires_grad,
                        made.is_leaf,
                        type(made).__name__,
                    )
                )
            except (TypeError, RuntimeError) as err:
                seen.append(type(err).__name__)
        with pytest.warns(UserWarning, match="volatile was removed"):
            Variable(x, volatile=True)
        return seen

    assert observe(tg) == observe(torch)
    x = tg.zeros(2)
    tg.autograd.Variable(x)[0] = 1
    assert x[0] == 1


def test_questions():
    x = tg.ones(2, 3)
    assert tg.is_tensor(x)
    assert not tg.is_tensor([1])
    assert tg.numel(x) == 6
    assert tg.is_floating_point(x)
    assert not tg.is_floating_point(x.long())
    assert not tg.is_complex(x)
    assert tg.is_signed(x)
    assert not tg.is_signed(x.byte())
    assert tg.is_same_size(x, tg.zeros(2, 3))
    assert not tg.is_same_size(x, tg.zeros(3, 2))
    assert not tg.is_inference(x)
    assert tg.typename(x) == "tapegrad.FloatTensor"
    assert tg.typename(1) == "int"
    assert tg.typename(tg.nn.Linear(1, 1)) == "tapegrad.nn.layers.linear.Linear"
    with pytest.raises(TypeError, match=r"numel\(\): argument 'input' must be Tensor, not int"):
        tg.numel(1)
    assert (tg.pi, tg.e, tg.inf) == (math.pi, math.e, math.inf)
    assert math.isnan(tg.nan)
    assert x[:, tg.newaxis].shape == (2, 1, 3)


def test_devices():
    assert tg.get_default_device() == tg.device("cpu")
    tg.set_default_device("cpu")
    tg.set_default_device(None)
    with pytest.raises(RuntimeError, match="the CPU only"):
        tg.set_default_device("cuda")
    assert tg.device("cuda" if tg.cuda.is_available() else "cpu").type == "cpu"


@pytest.mark.parametrize(
    "name",
    [
        "is_available",
        "is_initialized",
        "is_bf16_supported",
        "device_count",
        "memory_allocated",
        "max_memory_allocated",
        "empty_cache",
        "seed",
        "seed_all",
        "current_device",
        "get_device_name",
        "synchronize",
    ],
)
def test_cuda_as_pytorch(name):
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle")
    if torch.cuda.is_available():
        pytest.skip("this PyTorch has a GPU")
    seen = []
    for lib in (tg, torch):
        try:
            seen.append(getattr(lib.cuda, name)())
        except AssertionError:
            seen.append(AssertionError)
    assert seen[0] == seen[1]


def test_the_rest_of_cuda():
    tg.cuda.manual_seed(1)
    tg.cuda.manual_seed_all(1)
    assert tg.cuda.memory_reserved() == tg.cuda.max_memory_reserved() == 0
    for call in (tg.cuda.set_device, tg.cuda.get_device_properties):
        with pytest.raises(AssertionError, match="the CPU only; ask cuda.is_available"):
            call(0)


@pytest.mark.parametrize(
    "program",
    [
        "lib.autocast('cuda', enabled=False)(lambda x: x + 1)(1)",
        "lib.amp.autocast(device_type='cuda')(lambda x: x + 1)(1)",
        "lib.cuda.amp.autocast(enabled=False)(lambda x: x + 1)(1)",
        "lib.autocast('cpu', enabled=False)(lambda x: x + 1)(1)",
        "lib.autocast('xpu2')",
        "lib.autocast(1)",
        "lib.is_autocast_enabled()",
        "lib.amp.GradScaler('cuda').state_dict()",
        "lib.amp.GradScaler().get_scale()",
        "lib.GradScaler(enabled=False).is_enabled()",
        "lib.cuda.amp.GradScaler(enabled=False).scale([1.0])",
        "lib.cuda.amp.GradScaler().update()",
    ],
)
def test_mixed_precision_is_off_as_in_pytorch(program):
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle")
    if torch.cuda.is_available():
        pytest.skip("this PyTorch has a GPU")
    seen = []
    for lib in (tg, torch):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            try:
                result = eval(program, {"lib": lib})
            except (ValueError, RuntimeError) as err:
                result = type(err)
        seen.append((result, [w.category for w in found]))
    assert seen[0] == seen[1]


def test_a_loop_with_mixed_precision_trains():
    w = tg.nn.Linear(1, 1)
    optimizer = tg.optim.SGD(w.parameters(), lr=0.1)
    scaler = tg.amp.GradScaler("cuda", enabled=False)
    before = w.weight.clone()
    with tg.amp.autocast("cuda", enabled=False):
        loss = w(tg.ones(1, 1)).sum()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    scaler.load_state_dict(scaler.state_dict())
    assert w.weight.item() == pytest.approx(before.item() - 0.1)
    for refused in (tg.autocast, tg.amp.GradScaler):
        with pytest.raises(RuntimeError, match="half precision.* use enabled=False"):
            refused("cpu")
    assert not tg.amp.is_autocast_available("cpu")


def test_switches():
    cudnn = tg.backends.cudnn
    assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic) == (True, False, False)
    cudnn.benchmark = True
    assert cudnn.benchmark
    cudnn.benchmark = False
    assert not cudnn.is_available()
    assert cudnn.version() is None
    assert not tg.backends.mps.is_available()
    assert not tg.backends.mps.is_built()
    tg.backends.cuda.matmul.allow_tf32 = False
    with pytest.raises(AttributeError, match="no switch 'benchmrk'; there are enabled, benchmark"):
        cudnn.benchmrk = True
    tg.use_deterministic_algorithms(True)
    assert tg.are_deterministic_algorithms_enabled()
    tg.set_float32_matmul_precision("high")
    assert tg.get_float32_matmul_precision() == "highest"
    with pytest.raises(ValueError, match="'highest', 'high' or 'medium'"):
        tg.set_float32_matmul_precision("low")


def test_no_accelerator() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is the oracle")
    if torch.accelerator.is_available():
        pytest.skip("there is an accelerator here that PyTorch finds")

    def seen(lib):
        found = []
        asked = [
            *("is_available", "device_count", "current_accelerator", "current_device_index", "synchronize"),
            *("empty_cache", "memory_allocated", "current_stream"),
        ]
        for name in asked:
            try:
                found.append(getattr(lib.accelerator, name)())
            except RuntimeError as err:
                found.append(type(err).__name__)
        return found

    assert seen(tg) == seen(torch)
