"""SciPy's optimizers for a function of tensors: gradients and curvature come from the tape."""

from __future__ import annotations

import pathlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache as once
from typing import Any

import numpy as np

from .. import blas
from ..engine import grad
from ..modes import enable_grad, no_grad
from ..tensor import Tensor
from . import trees

# By what a method of SciPy's minimize asks for.
_VALUES = ("nelder-mead", "powell", "cobyla", "cobyqa")
_GRADIENTS = ("cg", "bfgs", "l-bfgs-b", "tnc", "slsqp")
_PRODUCTS = ("newton-cg", "trust-ncg", "trust-krylov", "trust-constr")
_HESSIANS = ("dogleg", "trust-exact")
METHODS = _VALUES + _GRADIENTS + _PRODUCTS + _HESSIANS
BOUNDED = ("nelder-mead", "powell", "cobyla", "cobyqa", "l-bfgs-b", "tnc", "slsqp", "trust-constr")


@dataclass(frozen=True)
class Minimum:
    """What ``minimize`` found.

    ``x`` is the parameters' tree with float64 tensors (or the module that was given, which now holds them),
    ``fun`` the function's value there, ``grad`` its gradient as a tree (None for methods without
    gradients). ``nit``, ``nfev`` and ``nhev`` count iterations, evaluations and products with the Hessian;
    ``scipy`` is SciPy's own result, over one flat vector.
    """

    x: Any
    fun: float
    grad: Any
    success: bool
    message: str
    nit: int
    nfev: int
    nhev: int
    scipy: Any

    def __repr__(self) -> str:
        outcome = "success" if self.success else "no success"
        return (
            f"Minimum({outcome}: {self.message}\n  fun={self.fun!r}, nit={self.nit}, nfev={self.nfev}, "
            f"nhev={self.nhev}\n  x={self.x!r})"
        )


def minimize(
    fn: Callable[[Any], Any],
    params: Any,
    *,
    method: str = "L-BFGS-B",
    bounds: Any = None,
    tol: float | None = None,
    options: dict[str, Any] | None = None,
    callback: Callable[[Any], Any] | None = None,
) -> Minimum:
    """Minimise ``fn(params)``, a tensor of one element, by a method of ``scipy.optimize.minimize``.

    ``params`` is where to start: a floating tensor, array or number, or a dict, list or tuple of such;
    ``fn`` gets the same containers with float64 tensors, and so does the result. Or it is a module with
    float64 parameters: ``fn`` gets the module, and those of its parameters that require grad are changed in
    place (after an exception they are as before). ``bounds`` is a pair (lower, upper), each None, a number,
    or a tree of these like ``params``. ``options`` and ``tol`` are the method's own; ``callback`` gets the
    tree of each new iterate and may raise StopIteration (not with TNC). Needs SciPy, whose BLAS is kept to
    one thread meanwhile: its pool and NumPy's would wait for each other.
    """
    name = str(method).lower()
    if name not in METHODS:
        raise ValueError(f"minimize: unknown method {method!r}; there are {', '.join(METHODS)}")
    if bounds is not None and name not in BOUNDED:
        raise ValueError(
            f"minimize: the method {method!r} takes no bounds; those that do are {', '.join(BOUNDED)}"
        )
    optimize = _scipy()
    objective = Objective(fn, params, gradients=name not in _VALUES)
    start = objective.start
    box = None
    if bounds is not None:
        low, high = trees.bound_vectors(bounds, params, objective.shapes, "minimize")
        objective.check_inside(low, high)
        box = optimize.Bounds(low, high)
    objective.check_start()

    calls: dict[str, Any] = {"fun": objective.value}
    if name not in _VALUES:
        calls = {"fun": objective.value_and_gradient, "jac": True}
    if name in _PRODUCTS:
        calls["hessp"] = objective.hessian_product
    elif name in _HESSIANS:
        calls["hess"] = objective.hessian
    told = None if callback is None else lambda x, *state: callback(objective.tree_at(x))
    try:
        with _one_blas_thread():
            found = optimize.minimize(
                x0=start, method=method, bounds=box, tol=tol, options=options, callback=told, **calls
            )
    except BaseException:
        objective.put_back()
        raise
    slope = None if name in _VALUES else objective.tree_of(objective.value_and_gradient(found.x)[1])
    return Minimum(
        x=objective.tree_at(found.x),
        fun=float(found.fun),
        grad=slope,
        success=bool(found.success),
        message=str(found.message),
        nit=int(found.get("nit", 0)),
        nfev=objective.evaluations,
        nhev=objective.products,
        scipy=found,
    )


def value_and_grad(fn: Callable[..., Any]) -> Callable[..., tuple[Any, Any]]:
    """A function of the same arguments that returns ``(fn(params, ...), gradient)``.

    ``params`` is a tensor or a dict, list or tuple of floating tensors, or a module; the gradient has its
    containers (of a module: a dict by parameter name) and the tensors' dtypes. What ``fn`` does not
    depend on has a gradient of zero. No ``.grad`` is touched.
    """

    def run(params: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        with enable_grad():
            leaves, value = _recorded(fn, params, args, kwargs, "value_and_grad")
            slopes = _gradient(value, leaves, create_graph=False)
        return value.detach(), trees.rebuild(params, iter(slopes))

    return run


def hvp(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function of ``(params, direction, ...)`` that returns the Hessian of ``fn`` at ``params`` times ``direction``.

    ``direction`` and the result are trees like ``params`` (of a module: dicts by parameter name). One gradient
    and one more backward through it; the Hessian itself is never formed.
    """

    def run(params: Any, direction: Any, *args: Any, **kwargs: Any) -> Any:
        with enable_grad():
            leaves, value = _recorded(fn, params, args, kwargs, "hvp")
            weights = [w for _, w in trees.named_leaves(direction)]
            if [getattr(w, "shape", None) for w in weights] != [x.shape for x in leaves]:
                raise ValueError(
                    "hvp: the direction must be a tree of tensors with the shapes of the parameters, "
                    f"{[list(x.shape) for x in leaves]}; got {[list(getattr(w, 'shape', ())) for w in weights]}"
                )
            products = _along(_gradient(value, leaves, create_graph=True), leaves, weights)
        return trees.rebuild(params, iter(products))

    return run


class Objective:
    """``fn`` as a function of one float64 vector, for SciPy."""

    def __init__(self, fn: Callable[[Any], Any], params: Any, gradients: bool) -> None:
        self.fn = fn
        self.params = params
        self.gradients = gradients
        named = list(trees.named_leaves(params))
        if not named:
            raise ValueError("minimize: there are no parameters (of a module, those that require grad count)")
        self.names = [name for name, _ in named]
        self.module = trees.is_module(params)
        self.own = [leaf for _, leaf in named] if self.module else []
        for name, leaf in named if self.module else ():
            if leaf.dtype.itemsize != 8:
                raise TypeError(
                    f"minimize: the module's parameter {name[1:]} is {leaf.dtype}; SciPy works in float64, so "
                    "call module.double() first, and give it float64 data"
                )
        arrays = [trees.start_array(name, leaf, "minimize") for name, leaf in named]
        self.shapes = [a.shape for a in arrays]
        self.start = trees.pack(arrays)
        self.evaluations = 0
        self.products = 0
        self._last: tuple[np.ndarray, float, Any] | None = None  # a point, the value and the gradient there
        self._curved: tuple[np.ndarray, Any, Any] | None = None  # a point, its leaves, its recorded gradient

    def check_inside(self, low: np.ndarray, high: np.ndarray) -> None:
        """The start has to lie within the bounds."""
        sides = zip(*(trees.unpack(v, self.shapes) for v in (self.start, low, high)), strict=True)
        for name, (x, a, b) in zip(self.names, sides, strict=True):
            if (a > b).any():
                raise ValueError(f"minimize: a lower bound of {name} is above the upper one")
            if (x < a).any() or (x > b).any():
                raise ValueError(
                    f"minimize: the start of {name} lies outside its bounds; move it inside (clamp does)"
                )

    def check_start(self) -> None:
        """A function that is not finite where it starts cannot be minimised."""
        value = self.value_and_gradient(self.start)[0] if self.gradients else self.value(self.start)
        if not np.isfinite(value):
            raise ValueError(f"minimize: the function is {value} at the start; choose another one")
        if not np.isfinite(self.start).all():
            raise ValueError("minimize: the start contains a value that is not finite")

    def value(self, x: np.ndarray) -> float:
        """The function's value."""
        if self._last is None or not np.array_equal(self._last[0], x):
            self.evaluations += 1
            with no_grad():
                self._last = np.array(x), float(self._evaluate(x)[1]), None
        return self._last[1]

    def value_and_gradient(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient."""
        if self._last is None or not np.array_equal(self._last[0], x):
            self.evaluations += 1
            with enable_grad():
                leaves, value = self._evaluate(x)
                _check_recorded(value, "minimize")
                slopes = _gradient(value, leaves, create_graph=False)
            self._last = np.array(x), float(value.detach()), trees.pack([s.numpy() for s in slopes])
        return self._last[1], self._last[2]

    def hessian_product(self, x: np.ndarray, direction: np.ndarray, *rest: Any) -> np.ndarray:
        """The Hessian times a direction; the recorded gradient is kept for the next direction at the same point."""
        self.products += 1
        with enable_grad():
            if self._curved is None or not np.array_equal(self._curved[0], x):
                leaves, value = self._evaluate(x)
                _check_recorded(value, "minimize")
                self._curved = (np.array(x), leaves, _gradient(value, leaves, create_graph=True))
            _, leaves, slopes = self._curved
            weights = [Tensor._make(w) for w in trees.unpack(direction, self.shapes)]
            return trees.pack([p.numpy() for p in _along(slopes, leaves, weights)])

    def hessian(self, x: np.ndarray, *rest: Any) -> np.ndarray:
        """The whole Hessian, a column for each parameter."""
        return np.stack([self.hessian_product(x, unit) for unit in np.eye(len(x))], axis=1)

    def tree_of(self, vector: np.ndarray) -> Any:
        """A vector in the parameters' containers."""
        return trees.rebuild(self.params, (Tensor._make(a) for a in trees.unpack(vector, self.shapes)))

    def tree_at(self, x: np.ndarray) -> Any:
        """The parameters at a point: the tree, or the module holding them."""
        if not self.module:
            return self.tree_of(x)
        self._put(x)
        return self.params

    def put_back(self) -> None:
        """Give a module the values that it had."""
        if self.module:
            self._put(self.start)

    def _evaluate(self, x: np.ndarray) -> tuple[list[Any], Any]:
        """Leaves and the function's result, recorded if the mode says so."""
        if self.module:
            self._put(x)
            leaves, given = self.own, self.params
        else:
            leaves = [Tensor._make(a).requires_grad_() for a in trees.unpack(x, self.shapes)]
            given = trees.rebuild(self.params, iter(leaves))
        return leaves, _one_number(self.fn(given), "minimize")

    def _put(self, x: np.ndarray) -> None:
        self._curved = None  # its leaves are about to change
        with no_grad():
            for leaf, a in zip(self.own, trees.unpack(x, self.shapes), strict=True):
                leaf.copy_(Tensor._make(a))


def _recorded(
    fn: Callable[..., Any], params: Any, args: tuple[Any, ...], kwargs: dict[str, Any], where: str
) -> tuple[list[Any], Any]:
    """Fresh leaves (a module's own) and the function's value over them."""
    named = list(trees.named_leaves(params))
    for name, leaf in named:
        if not isinstance(leaf, Tensor) or not leaf.is_floating_point():
            kind = leaf.dtype if isinstance(leaf, Tensor) else type(leaf).__name__
            raise TypeError(f"{where}: {name} is {kind}; the parameters must be floating tensors")
    if trees.is_module(params):
        leaves, given = [p for _, p in named], params
    else:
        leaves = [x.detach().requires_grad_() for _, x in named]
        given = trees.rebuild(params, iter(leaves))
    value = _one_number(fn(given, *args, **kwargs), where)
    _check_recorded(value, where)
    return leaves, value


def _one_number(value: Any, where: str) -> Any:
    if not isinstance(value, Tensor) or value.numel() != 1:
        what = f"a tensor of shape {list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise TypeError(f"{where}: the function must return a tensor with one element, got {what}")
    return value.reshape(())


def _check_recorded(value: Any, where: str) -> None:
    if not value.requires_grad:
        raise RuntimeError(
            f"{where}: the function's value does not depend on the parameters through anything recorded: was it "
            "computed under no_grad, from detached tensors, or in NumPy?"
        )


def _gradient(value: Any, leaves: list[Any], create_graph: bool) -> list[Any]:
    found = grad(value, leaves, create_graph=create_graph, allow_unused=True)
    return [
        Tensor._make(np.zeros_like(x._array)) if g is None else g for g, x in zip(found, leaves, strict=True)
    ]


def _along(slopes: list[Any], leaves: list[Any], weights: list[Any]) -> list[Any]:
    """The derivative of (slopes . weights): the Hessian's product with the weights, since it is symmetric."""
    live = [(s, w) for s, w in zip(slopes, weights, strict=True) if s.requires_grad]
    found: Any = [None] * len(leaves)
    if live:
        found = grad([s for s, _ in live], leaves, [w for _, w in live], retain_graph=True, allow_unused=True)
    return [
        Tensor._make(np.zeros_like(x._array)) if g is None else g for g, x in zip(found, leaves, strict=True)
    ]


def _scipy() -> Any:
    """``scipy.optimize``, at first use: it takes longer to import than all of tapegrad."""
    try:
        import scipy.optimize as optimize
    except ModuleNotFoundError as err:
        raise ModuleNotFoundError("minimize needs SciPy: pip install scipy", name=err.name) from None
    return optimize


@once
def _blas_of_scipy() -> list[Any]:
    """The BLAS that SciPy brought along; none if it shares NumPy's."""
    from threadpoolctl import (
        ThreadpoolController,
    )  # looks at all loaded libraries: after SciPy is one of them

    found = ThreadpoolController().select(user_api="blas").lib_controllers
    return [c for c in found if {"scipy.libs", "scipy"} & set(pathlib.PurePath(c.filepath).parts)]


_lock = threading.Lock()
_running = 0
_before: list[int] = []


@contextmanager
def _one_blas_thread() -> Iterator[None]:
    """SciPy's BLAS on one thread, until the last of several minimisations in this process has ended."""
    global _running, _before
    with _lock:
        if not _running:
            _before = [library.get_num_threads() for library in _blas_of_scipy()]
            for library in _blas_of_scipy():
                blas.set_threads(library, 1)
        _running += 1
    try:
        yield
    finally:
        with _lock:
            _running -= 1
            if not _running:
                for library, threads in zip(_blas_of_scipy(), _before, strict=True):
                    blas.set_threads(library, threads)
