"""One step of an optimizer over one parameter array.

Every kernel reads its numbers from ``hyper``, an array of the parameter's dtype, so that float32
arithmetic stays float32 and a call passes few arguments. The docstrings list what ``hyper`` holds;
g stands for the gradient with its sign (-1 to maximize) and weight decay applied.
"""

from __future__ import annotations

import math

from .jit import device, kernel


@device
def _gradient(grad, param, decay, sign):
    # Without decay nothing is added: 0 * inf would make a NaN.
    g = sign * grad
    if decay != 0:
        g += decay * param
    return g


@kernel
def sgd(param, grad, hyper, start, stop):
    """p -= lr g. hyper: lr, decay, sign."""
    lr, decay, sign = hyper[0], hyper[1], hyper[2]
    for i in range(start, stop):
        param[i] -= lr * _gradient(grad[i], param[i], decay, sign)


@kernel
def sgd_momentum(param, grad, velocity, hyper, first, start, stop):
    """v = momentum v + keep g (first: v = g); p -= lr v, nesterov: lr (g + momentum v).

    hyper: lr, decay, sign, momentum, keep = 1 - dampening, nesterov.
    """
    lr, decay, sign = hyper[0], hyper[1], hyper[2]
    momentum, keep, nesterov = hyper[3], hyper[4], hyper[5] != 0
    if first:
        for i in range(start, stop):
            velocity[i] = _gradient(grad[i], param[i], decay, sign)
            if nesterov:
                param[i] -= lr * (velocity[i] + momentum * velocity[i])
            else:
                param[i] -= lr * velocity[i]
    elif nesterov:
        for i in range(start, stop):
            g = _gradient(grad[i], param[i], decay, sign)
            v = momentum * velocity[i] + keep * g
            velocity[i] = v
            param[i] -= lr * (g + momentum * v)
    else:
        for i in range(start, stop):
            g = _gradient(grad[i], param[i], decay, sign)
            v = momentum * velocity[i] + keep * g
            velocity[i] = v
            param[i] -= lr * v


@kernel
def adam(param, grad, mean, square, hyper, start, stop):
    """m += b1' (g - m); s = b2 s + b2' g^2; p = shrink p - rate m / (sqrt(s) / root + eps).

    hyper: rate = lr / (1 - b1^t), decay, sign, b1' = 1 - b1, b2, b2' = 1 - b2, root = sqrt(1 - b2^t), eps,
    shrink = 1, or 1 - lr decay for decoupled decay.
    """
    rate, decay, sign, add1 = hyper[0], hyper[1], hyper[2], hyper[3]
    keep2, add2, root, eps, shrink = hyper[4], hyper[5], hyper[6], hyper[7], hyper[8]
    for i in range(start, stop):
        p = param[i]
        g = _gradient(grad[i], p, decay, sign)
        m = mean[i] + add1 * (g - mean[i])
        s = keep2 * square[i] + add2 * g * g
        mean[i] = m
        square[i] = s
        param[i] = shrink * p - rate * (m / (math.sqrt(s) / root + eps))


@kernel
def adam_amsgrad(param, grad, mean, square, largest, hyper, start, stop):
    """As adam, with the largest s so far in place of s. hyper: as adam."""
    rate, decay, sign, add1 = hyper[0], hyper[1], hyper[2], hyper[3]
    keep2, add2, root, eps, shrink = hyper[4], hyper[5], hyper[6], hyper[7], hyper[8]
    for i in range(start, stop):
        p = param[i]
        g = _gradient(grad[i], p, decay, sign)
        m = mean[i] + add1 * (g - mean[i])
        s = keep2 * square[i] + add2 * g * g
        mean[i] = m
        square[i] = s
        top = largest[i]
        # A NaN on either side has to stay a NaN.
        if s > top or s != s:
            top = s
        largest[i] = top
        param[i] = shrink * p - rate * (m / (math.sqrt(top) / root + eps))


@kernel
def nadam(param, grad, mean, square, hyper, start, stop):
    """p = shrink p - (rate_g g + rate_m m) / (sqrt(s / correction) + eps), m and s as in adam.

    hyper: rate_g, decay, sign, 1 - b1, b2, 1 - b2, correction = 1 - b2^t, eps, shrink, rate_m.
    """
    rate_g, decay, sign, add1 = hyper[0], hyper[1], hyper[2], hyper[3]
    keep2, add2, correction, eps, shrink = hyper[4], hyper[5], hyper[6], hyper[7], hyper[8]
    rate_m = hyper[9]
    for i in range(start, stop):
        p = shrink * param[i]
        g = _gradient(grad[i], p, decay, sign)
        m = mean[i] + add1 * (g - mean[i])
        s = keep2 * square[i] + add2 * g * g
        mean[i] = m
        square[i] = s
        denominator = math.sqrt(s / correction) + eps
        param[i] = p - rate_g * (g / denominator) - rate_m * (m / denominator)


@kernel
def radam(param, grad, mean, square, hyper, start, stop):
    """p = shrink p - rate m (rectified: / (sqrt(s) + eps)), m and s as in adam.

    hyper: rate, decay, sign, 1 - b1, b2, 1 - b2, rectified, eps, shrink.
    """
    rate, decay, sign, add1 = hyper[0], hyper[1], hyper[2], hyper[3]
    keep2, add2, rectified, eps, shrink = hyper[4], hyper[5], hyper[6] != 0, hyper[7], hyper[8]
    for i in range(start, stop):
        p = shrink * param[i]
        g = _gradient(grad[i], p, decay, sign)
        m = mean[i] + add1 * (g - mean[i])
        s = keep2 * square[i] + add2 * g * g
        mean[i] = m
        square[i] = s
        if rectified:
            param[i] = p - rate * (m / (math.sqrt(s) + eps))
        else:
            param[i] = p - rate * m


@kernel
def adamax(param, grad, mean, norm, hyper, start, stop):
    """m as in adam; u = max(b2 u, |g| + eps); p -= rate m / u.

    hyper: rate = lr / (1 - b1^t), decay, sign, 1 - b1, b2, eps.
    """
    rate, decay, sign = hyper[0], hyper[1], hyper[2]
    add1, keep2, eps = hyper[3], hyper[4], hyper[5]
    for i in range(start, stop):
        g = _gradient(grad[i], param[i], decay, sign)
        m = mean[i] + add1 * (g - mean[i])
        u = keep2 * norm[i]
        size = abs(g) + eps
        if size > u or size != size:
            u = size
        mean[i] = m
        norm[i] = u
        param[i] -= rate * (m / u)


@kernel
def adagrad(param, grad, total, hyper, start, stop):
    """s += g^2; p -= rate g / (sqrt(s) + eps). hyper: rate, decay, sign, eps."""
    rate, decay, sign, eps = hyper[0], hyper[1], hyper[2], hyper[3]
    for i in range(start, stop):
        g = _gradient(grad[i], param[i], decay, sign)
        s = total[i] + g * g
        total[i] = s
        param[i] -= rate * (g / (math.sqrt(s) + eps))


@kernel
def adadelta(param, grad, square, moved, hyper, start, stop):
    """s = rho s + rho' g^2; d = sqrt(a + eps) / sqrt(s + eps) g; a = rho a + rho' d^2; p -= lr d.

    hyper: lr, decay, sign, rho, rho' = 1 - rho, eps.
    """
    lr, decay, sign = hyper[0], hyper[1], hyper[2]
    rho, rest, eps = hyper[3], hyper[4], hyper[5]
    for i in range(start, stop):
        g = _gradient(grad[i], param[i], decay, sign)
        s = rho * square[i] + rest * g * g
        d = math.sqrt(moved[i] + eps) / math.sqrt(s + eps) * g
        square[i] = s
        moved[i] = rho * moved[i] + rest * d * d
        param[i] -= lr * d


@kernel
def rmsprop(param, grad, square, mean, velocity, hyper, centered, momentum, start, stop):
    """s = a s + a' g^2; d = g / (sqrt(s - m^2) + eps); v = momentum v + d; p -= lr v.

    Without centered, m is 0; without momentum, v is d; the arrays are then not touched.
    hyper: lr, decay, sign, a, a' = 1 - a, eps, momentum.
    """
    lr, decay, sign, keep = hyper[0], hyper[1], hyper[2], hyper[3]
    rest, eps, factor = hyper[4], hyper[5], hyper[6]
    for i in range(start, stop):
        g = _gradient(grad[i], param[i], decay, sign)
        s = keep * square[i] + rest * g * g
        square[i] = s
        if centered:
            m = mean[i] + rest * (g - mean[i])
            mean[i] = m
            s -= m * m
        d = g / (math.sqrt(s) + eps)
        if momentum:
            d += factor * velocity[i]
            velocity[i] = d
        param[i] -= lr * d


@kernel
def rprop(param, grad, before, size, hyper, start, stop):
    """size *= up if g kept its sign, down if it changed (then g = 0); p -= sign(g) size.

    hyper: sign, down, up, least size, largest size, 0, 1.
    """
    sign, down, up = hyper[0], hyper[1], hyper[2]
    least, most, zero, one = hyper[3], hyper[4], hyper[5], hyper[6]
    for i in range(start, stop):
        g = sign * grad[i]
        product = g * before[i]
        factor = up if product > zero else (down if product < zero else one)
        width = min(max(size[i] * factor, least), most)
        if product < zero:
            g = zero
        step = width if g > zero else (-width if g < zero else zero)
        before[i] = g
        size[i] = width
        param[i] -= step


@kernel
def asgd(param, grad, average, hyper, start, stop):
    """p = shrink p - eta g; a += mu (p - a). hyper: eta, decay, sign, shrink = 1 - lambda eta, mu."""
    eta, decay, sign, shrink, mu = hyper[0], hyper[1], hyper[2], hyper[3], hyper[4]
    for i in range(start, stop):
        g = _gradient(grad[i], param[i], decay, sign)
        p = shrink * param[i] - eta * g
        param[i] = p
        average[i] += mu * (p - average[i])
