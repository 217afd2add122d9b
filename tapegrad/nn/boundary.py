"""Full backward hooks: identities around a module's call that see the gradients pass.

The inputs of the call go through one identity and its outputs through another. In the backward
pass the output identity comes first: it runs the pre-hooks and remembers grad_output. The input
identity comes when all gradients of the inputs have arrived, and runs the hooks with both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..autograd import Function
from ..modes import is_grad_enabled
from ..tensor import Tensor

Grads = tuple[Any, ...]


class _Pass(Function):
    """Identity on tensors; in the backward pass the gradients go through ``seen``."""

    @staticmethod
    def forward(ctx: Any, seen: Callable[[Grads], Grads], fill: bool, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.seen = seen
        ctx.set_materialize_grads(fill)
        ctx.mark_non_differentiable(*[t for t in tensors if not t.requires_grad])
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Grads:
        return (None, None, *ctx.seen(grads))


class BackwardBoundary:
    """The hooks of one call: ``enter`` its arguments, ``leave`` with its result."""

    def __init__(
        self, module: Any, hooks: Sequence[Callable[..., Any]], pre_hooks: Sequence[Callable[..., Any]]
    ) -> None:
        self.module = module
        self.hooks = hooks
        self.pre_hooks = pre_hooks
        self.grad_outputs: Grads | None = None
        self.input_places: list[int] | None = None
        self.output_places: list[int] = []
        self.n_inputs = -1
        self.n_outputs = -1

    def enter(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, watched. Nothing is watched if none requires grad."""
        self.n_inputs = len(args)
        args, places = _through(args, self._inputs_ready, fill=True)
        self.input_places = places
        return args

    def leave(self, result: Any) -> Any:
        """The result, watched: tensors in a tuple, or a single tensor."""
        single = not isinstance(result, tuple)
        results = (result,) if single else result
        self.n_outputs = len(results)
        tensors, places = _through(results, self._outputs_ready, fill=False)
        self.output_places = places or []
        if single:
            return tensors[0]
        # A named tuple takes its fields one by one.
        return type(result)(*tensors) if hasattr(result, "_fields") else type(result)(tensors)

    def _outputs_ready(self, grads: Grads) -> Grads:
        outputs = _spread(grads, self.output_places, self.n_outputs)
        for hook in self.pre_hooks:
            changed = hook(self.module, outputs)
            if changed is not None:
                outputs = _checked(changed, outputs, "grad_output")
        self.grad_outputs = outputs
        if self.input_places is None:
            for hook in self.hooks:
                answer = hook(self.module, (None,) * self.n_inputs, outputs)
                if answer is not None and not (isinstance(answer, tuple) and all(g is None for g in answer)):
                    raise RuntimeError(
                        "a backward hook of a module whose inputs require no gradient has nothing to "
                        "replace: it "
                        "must return None, or None for every gradient"
                    )
            self.grad_outputs = None
        return tuple(outputs[i] for i in self.output_places)

    def _inputs_ready(self, grads: Grads) -> Grads:
        outputs = self.grad_outputs
        if outputs is None:  # a backward that did not pass through the outputs
            return grads
        places = self.input_places or []
        inputs = _spread(grads, places, self.n_inputs)
        for hook in self.hooks:
            changed = hook(self.module, inputs, outputs)
            if changed is not None:
                inputs = _checked(changed, inputs, "grad_input")
        self.grad_outputs = None
        return tuple(inputs[i] for i in places)


def _through(
    values: tuple[Any, ...], seen: Callable[[Grads], Grads], fill: bool
) -> tuple[tuple[Any, ...], list[int] | None]:
    """The values with their tensors passed through the identity, and where the tensors are."""
    places = [i for i, v in enumerate(values) if isinstance(v, Tensor)]
    if not is_grad_enabled() or not any(values[i].requires_grad for i in places):
        return values, None
    passed = list(values)
    for i, tensor in zip(places, _Pass.apply(seen, fill, *[values[i] for i in places]), strict=True):
        passed[i] = tensor
    return tuple(passed), places


def _spread(grads: Grads, places: list[int], n: int) -> Grads:
    wide: list[Any] = [None] * n
    for i, grad in zip(places, grads, strict=True):
        wide[i] = grad
    return tuple(wide)


def _checked(changed: Any, before: Grads, what: str) -> Grads:
    if not isinstance(changed, (tuple, list)):
        raise RuntimeError(
            f"a backward hook must return None or a tuple of {len(before)} gradients in place of {what}, got "
            f"{type(changed).__name__}"
        )
    if len(changed) != len(before):
        raise RuntimeError(
            f"a backward hook returned an invalid number of {what}: got {len(changed)}, but expected "
            f"{len(before)}"
        )
    return tuple(changed)
