"""Running the same module in tapegrad and in PyTorch."""

from __future__ import annotations

import copy

import numpy as np
import torch

import tapegrad as tg


def to_torch(value):
    """Tensors and arrays of a nested structure as PyTorch's, everything else as it is."""
    if isinstance(value, tg.Tensor):
        return torch.tensor(value.detach().numpy().copy())
    if isinstance(value, np.ndarray):
        return torch.tensor(value)
    if isinstance(value, (list, tuple)):
        return type(value)(to_torch(v) for v in value)
    if isinstance(value, dict):
        return {k: to_torch(v) for k, v in value.items()}
    return value


def to_tapegrad(value):
    """The reverse of to_torch."""
    if isinstance(value, torch.Tensor):
        return tg.tensor(value.detach().numpy().copy())
    if isinstance(value, np.ndarray):
        return tg.tensor(value)
    if isinstance(value, (list, tuple)):
        return type(value)(to_tapegrad(v) for v in value)
    if isinstance(value, dict):
        return {k: to_tapegrad(v) for k, v in value.items()}
    return value


def leaves(value):
    """All tensors of a nested structure, in order."""
    if hasattr(value, "requires_grad"):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [leaf for v in value for leaf in leaves(v)]
    return []


def tracked(values, constant=()):
    for i, value in enumerate(values):
        for leaf in leaves(value):
            if leaf.is_floating_point() and i not in constant:
                leaf.requires_grad_()
    return values


def load(module, reference):
    """Give a tapegrad module the state of a PyTorch one; the keys have to agree, in order."""
    state = reference.state_dict()
    assert list(module.state_dict()) == list(state)
    module.load_state_dict({k: tg.tensor(v.numpy().copy()) for k, v in state.items()})


def close(mine, theirs, rtol, what):
    mine, theirs = np.asarray(mine.detach().numpy()), theirs.detach().numpy()
    assert mine.dtype == theirs.dtype, what
    assert mine.shape == theirs.shape, what
    np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=rtol * 1e-1, err_msg=what, equal_nan=True)


def compare(module, reference, args, kwargs=None, rtol=1e-9, constant=(), prepared=False):
    """Outputs, gradients of inputs and parameters, buffers after the call.

    Inputs whose position is in ``constant`` do not require grad. With ``prepared``, args and kwargs are
    pairs, for tapegrad and for PyTorch.
    """
    kwargs = kwargs or {}
    if prepared:
        (mine_in, their_in), (mine_kw, their_kw) = args, kwargs
    else:
        mine_in, their_in = tracked(to_tapegrad(args), constant), tracked(to_torch(args), constant)
        mine_kw, their_kw = to_tapegrad(kwargs), to_torch(kwargs)
    mine, theirs = leaves(module(*mine_in, **mine_kw)), leaves(reference(*their_in, **their_kw))
    assert len(mine) == len(theirs)
    rng = np.random.default_rng(7)
    mine_loss, their_loss = 0.0, 0.0
    for i, (a, b) in enumerate(zip(mine, theirs, strict=True)):
        close(a, b, rtol, f"output {i}")
        assert a.requires_grad == b.requires_grad
        if b.requires_grad:
            weight = rng.normal(size=tuple(b.shape))
            mine_loss = mine_loss + (a * tg.tensor(weight, dtype=a.dtype)).sum()
            their_loss = their_loss + (b * torch.tensor(weight, dtype=b.dtype)).sum()
    if isinstance(their_loss, float):
        return
    mine_loss.backward()
    their_loss.backward()
    pairs = [(f"input {i}", *p) for i, p in enumerate(zip(leaves(mine_in), leaves(their_in), strict=True))]
    named = dict(reference.named_parameters())
    pairs += [(name, p, named[name]) for name, p in module.named_parameters()]
    for name, a, b in pairs:
        assert (a.grad is None) == (b.grad is None), name
        if b.grad is not None:
            close(a.grad, b.grad, rtol, f"gradient of {name}")
    theirs_buffers = dict(reference.named_buffers())
    for name, buffer in module.named_buffers():
        close(buffer, theirs_buffers[name], rtol, f"buffer {name}")


def both(name, *args, dtype=True, **kwargs):
    """The module of that name of both libraries, in float64 if it has a dtype."""
    mine = getattr(tg.nn, name)(*to_tapegrad(args), **to_tapegrad(kwargs))
    theirs = getattr(torch.nn, name)(*to_torch(args), **to_torch(kwargs))
    return mine.double(), theirs.double()


def twin(value):
    return copy.deepcopy(value)


def agree(observe):
    """The same observation, or the same class of error (or a subclass), from both libraries."""
    seen = []
    for lib in (tg, torch):
        try:
            seen.append(observe(lib))
        except Exception as err:
            seen.append(type(err))
    if isinstance(seen[0], type) and isinstance(seen[1], type):
        assert issubclass(seen[0], seen[1]), seen
    else:
        assert seen[0] == seen[1], seen


def names(pairs):
    return [n for n, _ in pairs]
