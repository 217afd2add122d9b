"""Solve a differential equation by a network whose loss is the equation, with SciPy's optimizers.

A damped oscillator, u'' + 2 d u' + w^2 u = 0 with u(0) = 1 and u'(0) = 0, on 0 <= t <= 3. The network N
gives u(t) = 1 + t^2 N(t), which starts right whatever N is. u' and u'' are recorded derivatives
(``create_graph``), so that the loss, the mean square of the equation's left side, can be differentiated for
the weights: a third derivative in all. ``tg.optim.minimize`` hands it to SciPy in float64. The solution is
known, and the error is printed.
"""

from __future__ import annotations

import math
from typing import Any

import tapegrad as tg
from tapegrad import nn
from tapegrad.examples.common import Options, Run

DAMPING, FREQUENCY = 0.5, 5.0


class Solution(nn.Module):
    """u(t) for times (n, 1)."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(1, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 1)
        )

    def forward(self, t: tg.Tensor) -> tg.Tensor:
        """u(t)."""
        u: tg.Tensor = 1 + t * t * self.net(t)
        return u


def residual(model: nn.Module, t: tg.Tensor) -> Any:
    """u'' + 2 d u' + w^2 u at times (n, 1) that require grad."""
    u = model(t)
    (slope,) = tg.autograd.grad(u.sum(), t, create_graph=True)
    (bend,) = tg.autograd.grad(slope.sum(), t, create_graph=True)
    return bend + 2 * DAMPING * slope + FREQUENCY**2 * u


def exact(t: tg.Tensor) -> Any:
    """The solution on paper."""
    w = math.sqrt(FREQUENCY**2 - DAMPING**2)
    return (-DAMPING * t).exp() * ((w * t).cos() + DAMPING / w * (w * t).sin())


def main(arguments: list[str] | None = None) -> float:
    """Solve; returns the largest error between the points."""
    known = Options("tapegrad.examples.pinn", __doc__).numbers(steps=1500, hidden=24, points=60)
    known.add_argument(
        "--method",
        default="L-BFGS-B",
        choices=["L-BFGS-B", "BFGS", "CG", "Newton-CG", "trust-krylov"],
        help="of scipy.optimize.minimize (L-BFGS-B)",
    )
    options = known.parse(arguments)
    with Run(options) as run:
        model = Solution(options.hidden).double()
        times = tg.linspace(0, 3, options.points, dtype=tg.float64).reshape(-1, 1).requires_grad_()
        between = tg.linspace(0, 3, 500, dtype=tg.float64).reshape(-1, 1)
        steps = run.bar(range(1, options.steps + 1))

        def loss(model: nn.Module) -> Any:
            return residual(model, times).square().mean()

        def error() -> float:
            with tg.no_grad():
                return float((model(between) - exact(between)).abs().max())

        def note(model: nn.Module) -> None:
            step = next(steps)
            if step % 100 == 0 and step < options.steps:
                run.record(step=step, loss=loss(model), error=error())

        limits = {"maxiter": options.steps}
        if options.method == "L-BFGS-B":
            limits |= {"maxfun": 2 * options.steps, "maxcor": 50}
        found = tg.optim.minimize(
            loss, model, method=options.method, tol=1e-10, options=limits, callback=note
        )
        run.record(step=found.nit, loss=found.fun, error=error())
    print(f"{found.message} ({found.nfev} evaluations, {found.nhev} products with the Hessian)")
    return run.records[-1]["error"]


if __name__ == "__main__":
    main()
