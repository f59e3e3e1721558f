# SPDX-License-Identifier: Apache-2.0
"""tests/peer/windows.py: convolution, matrix products and pooling as PyTorch computes them in f64; 8-bit convolution as
NumPy does in the f32 steps of ops.h."""
import numpy as np
import torch
import torch.nn.functional as F

from frame import activated, draw_activation, scaled


# ---- Convolution ----

def conv_geometry(k):
    """Draws shapes and the struct's members: x, w and y dims, and what conv() below takes."""
    rank = int(k.any(1, 2, 2, 2, 3))
    most = 3 if rank == 3 else 5
    groups = int(k.any(1, 1, 2, 3))
    cg, kg = int(k.rng.integers(1, 6)), int(k.rng.integers(1, 6))
    if k.rng.random() < 0.25:
        groups, cg, kg = int(k.rng.integers(2, 6)), 1, int(k.rng.integers(1, 4))  # depthwise with a multiplier
    window = [int(k.rng.integers(1, most)) for _ in range(rank)]
    stride = [int(k.rng.integers(1, 4)) for _ in range(rank)]
    dilation = [int(k.any(1, 1, 2, 3)) for _ in range(rank)]
    pad = [int(k.rng.integers(0, 4)) for _ in range(rank)]
    explicit = k.rng.random() < 0.4
    end = [int(k.rng.integers(0, 4)) for _ in range(rank)] if explicit else pad
    extent = [max(1, d * (w - 1) + 1 - a - b) + int(k.rng.integers(0, 7 if rank < 3 else 4))
              for d, w, a, b in zip(dilation, window, pad, end)]
    out = [(h + a + b - d * (w - 1) - 1) // s + 1
           for h, a, b, d, w, s in zip(extent, pad, end, dilation, window, stride)]
    n, flip = int(k.rng.integers(1, 4)), k.rng.random() < 0.25
    for name, value in (("stride", stride), ("pad", pad), ("dilation", dilation), ("groups", groups)):
        k.key(name, value)
    if explicit:
        k.key("pad_end", end), k.key("pad_mode", "explicit")
    if flip:
        k.key("mode", "convolution")
    k.geometry = stride, pad, end, dilation, groups, flip
    k.depth = cg * int(np.prod(window))
    return [n, groups * cg] + extent, [groups * kg, cg] + window, [n, groups * kg] + out


def conv(k, x, w):
    stride, pad, end, dilation, groups, flip = k.geometry
    rank = len(stride)
    if flip:
        w = w.flip(list(range(2, 2 + rank)))
    x = F.pad(x, [p for pair in zip(reversed(pad), reversed(end)) for p in pair])
    return (F.conv1d, F.conv2d, F.conv3d)[rank - 1](x, w, None, stride, 0, dilation, groups)


def conv_transposed(k, dy, w, dims):
    """The gradient of conv() by x; PyTorch's transposed convolution where that can express it."""
    stride, pad, end, dilation, groups, flip = k.geometry
    rank = len(stride)
    extra = [h - ((p - 1) * s - a - b + d * (r - 1) + 1) for h, p, s, a, b, d, r in
             zip(dims[2:], dy.shape[2:], stride, pad, end, dilation, w.shape[2:])]
    if pad == end and all(0 <= e < max(s, d) for e, s, d in zip(extra, stride, dilation)):
        if flip:
            w = w.flip(list(range(2, 2 + rank)))
        return (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[rank - 1](
            dy, w, None, stride, pad, extra, groups, dilation)
    x = torch.zeros(dims, dtype=torch.float64, requires_grad=True)
    return torch.autograd.grad(conv(k, x, w), x, dy)[0]


def conv_gradient(k, x, dy, dims):
    w = torch.zeros(dims, dtype=torch.float64, requires_grad=True)
    return torch.autograd.grad(conv(k, x, w), w, dy)[0]


def conv_stored(k, sums, out, dims, dtype):
    """The operations that store f(alpha * sum + bias + alpha2 * z + beta * out)."""
    alpha, beta = k.scalar("alpha", 1, 0, 1, 0.3, -2), k.scalar("beta", 0, 0, 1, 0.7)
    channels = [1, dims[1]] + [1] * (len(dims) - 2)
    bias, z, alpha2 = k.rng.random() < 0.5, k.rng.random() < 0.5, 1
    if bias:
        k.tensor("bias", channels, dtype)
    in_place = z and k.rng.random() < 0.4
    if z:
        k.tensor("z", dims, dtype, output=in_place)
        alpha2 = k.scalar("alpha2", 1, 0, 1, -0.6)
    k.tensor(out, dims, dtype, True, alias="z" if in_place else "")
    name, coef = draw_activation(k, "identity", "identity", "relu", "leaky_relu", "clipped_relu", "sigmoid", "tanh")
    k.key("activation", name)

    def want(v):
        terms, sizes = [alpha * sums(v, False)], [abs(alpha) * sums(v, True)]
        if bias:
            terms.append(v["bias"]), sizes.append(v["bias"].abs())
        if z and alpha2:
            terms.append(alpha2 * v["z"]), sizes.append((alpha2 * v["z"]).abs())
        if beta:
            terms.append(beta * v[out]), sizes.append((beta * v[out]).abs())
        result, size = sum(terms), sum(sizes) * max(1, abs(coef) if name == "leaky_relu" else 1)
        return {out: (activated(name, coef, result), size + (4 if name in ("sigmoid", "tanh") else 0))}

    k.want = want


def sized(v, size):
    return v.abs() if size else v


def conv_forward(k):
    x, w, y = conv_geometry(k)
    dtype = k.any("f32", "f64", "f16", "bf16")
    k.tensor("x", x, dtype), k.tensor("w", w, dtype)
    conv_stored(k, lambda v, size: conv(k, sized(v["x"], size), sized(v["w"], size)), "y", y, dtype)


def conv_backward_data(k):
    x, w, y = conv_geometry(k)
    dtype = k.any("f32", "f64", "f16", "bf16")
    k.tensor("dy", y, dtype), k.tensor("w", w, dtype)
    k.depth = w[0] // k.geometry[4] * int(np.prod(w[2:]))
    conv_stored(k, lambda v, size: conv_transposed(k, sized(v["dy"], size), sized(v["w"], size), x), "dx", x, dtype)


def conv_backward_filter(k):
    x, w, y = conv_geometry(k)
    dtype = k.any("f32", "f64", "f16", "bf16")
    k.tensor("x", x, dtype), k.tensor("dy", y, dtype), k.tensor("dw", w, dtype, True)
    k.depth = y[0] * int(np.prod(y[2:]))
    scaled(k, "dw", lambda v: (conv_gradient(k, v["x"], v["dy"], w), conv_gradient(k, v["x"].abs(), v["dy"].abs(), w)))


def conv_backward_bias(k):
    dims, dtype = conv_geometry(k)[2], k.any("f32", "f64", "f16", "bf16")
    k.words = k.words[:1]
    k.tensor("dy", dims, dtype), k.tensor("dbias", [1, dims[1]] + [1] * (len(dims) - 2), dtype, True)
    axes = [0] + list(range(2, len(dims)))
    k.depth = dims[0] * int(np.prod(dims[2:]))
    scaled(k, "dbias", lambda v: (v["dy"].sum(axes, keepdim=True), v["dy"].abs().sum(axes, keepdim=True)))


def conv_integer(k):
    """8-bit convolution, to the bit: whole sums, then one rounding to f32 for each step of ops.h."""
    k.words[0] = "conv_forward"
    x, w, y = conv_geometry(k)
    xt, yt = k.any("i8", "u8"), k.any("i8", "u8", "i8", "u8", "f32", "i32")
    channels = [1, y[1]] + [1] * (len(y) - 2)
    full = lambda low, high: lambda n: k.rng.integers(low, high + 1, n)
    k.tensor("x", x, xt, fill=full(-128, 127) if xt == "i8" else full(0, 255))
    k.tensor("w", w, "i8", fill=full(-128, 127))
    zero = k.scalar("x_zero", 0, *((-128, 127, 3) if xt == "i8" else (0, 255, 128)))
    bias = k.any(None, "i32") if yt == "i32" else k.any(None, "i32", "f32")
    if bias:
        k.tensor("bias", channels, bias, fill=full(-5000, 5000) if bias == "i32" else lambda n: 50 * k.normal(n))
    alpha, beta, alpha2, scales, z, name, coef, y_zero = 1, 0, 1, False, None, "identity", 0, 0
    if yt != "i32":
        alpha, beta = k.scalar("alpha", 1, 1, 0.3, 0.01, -2), k.scalar("beta", 0, 1, 0.7)
        scales = k.rng.random() < 0.7
        if scales:
            k.tensor("scales", k.any(channels, [1] * len(y)), "f32", fill=lambda n: 0.003 + 0.02 * k.rng.random(n))
        if k.rng.random() < 0.5:
            in_place, z = k.rng.random() < 0.4, yt
            k.tensor("z", y, z, output=in_place)
            alpha2 = k.scalar("alpha2", 1, 0, 1, -0.6)
        else:
            in_place = False
        name, coef = draw_activation(k, "identity", "identity", "relu", "leaky_relu", "clipped_relu")
        k.key("activation", name)
        y_zero = k.scalar("y_zero", 0, *((-128, 5) if yt == "i8" else (255, 100))) if yt != "f32" else 0
    k.tensor("y", y, yt, True, alias="z" if z and in_place else "")

    def want(v):
        f = np.float32
        array = lambda name: v[name].numpy().astype(f)
        total = conv(k, v["x"] - zero, v["w"])
        # conv() pads the difference with 0: outside x, x is x_zero
        total = total + v["bias"] if bias == "i32" else total
        if yt == "i32":
            return {"y": (total, None)}
        value = total.numpy().astype(f)
        value = value * (f(alpha) * array("scales")) if scales else value * f(alpha)
        if bias == "f32":
            value = value + array("bias")
        if z and alpha2:
            value = value + f(alpha2) * array("z")
        if beta:
            value = value + f(beta) * array("y")
        value = {"identity": value, "relu": np.maximum(value, f(0)),
                 "leaky_relu": np.where(value < 0, f(coef) * value, value),
                 "clipped_relu": np.clip(value, f(0), f(coef))}[name]
        if yt != "f32":
            low, high = (-128, 127) if yt == "i8" else (0, 255)
            value = np.clip(np.rint(value).astype(np.float64) + y_zero, low, high)
        return {"y": (torch.from_numpy(value.astype(np.float64)), None)}

    k.want = want


# ---- Matrix products, pooling ----

def matmul(k):
    m, n, depth = (int(k.rng.integers(1, 40)) for _ in range(3))
    batch = [int(k.rng.integers(1, 4)) for _ in range(k.any(0, 0, 1, 2))]
    thin = lambda: [1 if k.rng.random() < 0.3 else b for b in batch]
    ta, tb, dtype = k.any(0, 1), k.any(0, 1), k.any("f32", "f16", "bf16")
    k.key("trans_a", ta), k.key("trans_b", tb)
    a, b = thin(), thin()
    batch = [max(i, j) for i, j in zip(a, b)]
    k.tensor("a", a + ([depth, m] if ta else [m, depth]), dtype)
    k.tensor("b", b + ([n, depth] if tb else [depth, n]), dtype)
    bias = k.rng.random() < 0.4
    if bias:
        k.tensor("bias", [1] * (len(batch) + 1) + [n], dtype)
    k.tensor("y", batch + [m, n], dtype, True)
    alpha, beta = k.scalar("alpha", 1, 0, 1, 0.3, -2), k.scalar("beta", 0, 0, 1, 0.7)
    k.depth = depth

    def want(v):
        def result(f, alpha, beta):
            a, b = f(v["a"]), f(v["b"])
            y = alpha * torch.matmul(a.mT if ta else a, b.mT if tb else b)
            y = y + f(v["bias"]) if bias else y
            return y + beta * f(v["y"]) if beta else y
        return {"y": (result(lambda t: t, alpha, beta), result(torch.abs, abs(alpha), abs(beta)))}

    k.want = want


def pool_geometry(k):
    rank = int(k.any(1, 2, 2, 2, 3))
    window = [int(k.rng.integers(1, 5)) for _ in range(rank)]
    stride = [int(k.rng.integers(1, 5)) for _ in range(rank)]
    dilation = [int(k.any(1, 1, 1, 2, 3)) for _ in range(rank)]
    reach = [d * (w - 1) + 1 for d, w in zip(dilation, window)]
    pad = [int(k.rng.integers(0, min(r, 4))) for r in reach]
    explicit, ceil = k.rng.random() < 0.4, int(k.rng.random() < 0.5)
    end = [int(k.rng.integers(0, min(r, 4))) for r in reach] if explicit else pad
    extent = [max(1, r - a - b) + int(k.rng.integers(0, 8 if rank < 3 else 4)) for r, a, b in zip(reach, pad, end)]
    out = []
    for h, a, b, r, s in zip(extent, pad, end, reach, stride):
        p = (h + a + b - r + (s - 1 if ceil else 0)) // s + 1
        out.append(p - 1 if ceil and (p - 1) * s >= h + a else p)
    mode = k.any("max", "avg_include", "avg_exclude")
    for name, value in (("mode", mode), ("window", window), ("stride", stride), ("pad", pad), ("dilation", dilation)):
        k.key(name, value)
    if explicit:
        k.key("pad_end", end), k.key("pad_mode", "explicit")
    if ceil:
        k.key("ceil_mode", 1)
    n, channels = int(k.rng.integers(1, 3)), int(k.rng.integers(1, 5))
    k.geometry, k.depth = (window, stride, pad, end, dilation, ceil, mode), int(np.prod(window))
    return [n, channels] + extent, [n, channels] + out


def windows(k, dims, out):
    """For each output and each cell of its window: the offset in the plane of x (-1 outside), and whether the cell lies
    inside the padded input."""
    window, stride, pad, end, dilation = k.geometry[:5]
    plane, padded = np.zeros((1, 1), dtype=np.int64), np.ones((1, 1), dtype=bool)
    inside = padded
    for h, p, r, s, a, b, d in zip(dims[2:], out[2:], window, stride, pad, end, dilation):
        at = np.arange(p)[:, None] * s - a + np.arange(r)[None] * d
        join = lambda f, x, y: f(x[:, None, :, None], y[None, :, None, :]).reshape(x.shape[0] * p, x.shape[1] * r)
        plane = join(lambda x, y: x * h + y, plane, at)
        inside = join(np.logical_and, inside, (at >= 0) & (at < h))
        padded = join(np.logical_and, padded, at < h + b)
    return np.where(inside, plane, -1), padded


def torch_pool(k, x):
    """PyTorch's pooling, None where it does not take the problem: unequal or wide pads, dilated averages, and averages of
    three dimensions over images that are smaller than the window."""
    window, stride, pad, end, dilation, ceil, mode = k.geometry
    if pad != end or any(2 * p > w for p, w in zip(pad, window)) or (mode != "max" and max(dilation) > 1):
        return None
    if mode != "max" and len(window) == 3 and any(w > size for w, size in zip(window, x.shape[2:])):
        return None
    name = f"{'max' if mode == 'max' else 'avg'}_pool{len(window)}d"
    if mode == "max":
        return getattr(F, name)(x, window, stride, pad, dilation, bool(ceil))
    return getattr(F, name)(x, window, stride, pad, bool(ceil), mode == "avg_include")


def averaged(k, x, out):
    """The averages, with a gradient by x."""
    plane, padded = windows(k, x.shape, out)
    cells = x.reshape(*x.shape[:2], -1)[..., torch.from_numpy(np.maximum(plane, 0))]
    divisor = torch.from_numpy((padded if k.geometry[-1] == "avg_include" else plane >= 0).sum(1)).double()
    return (cells.masked_fill(torch.from_numpy(plane < 0), 0).sum(-1) / divisor).reshape(out)


def pooled(k, x, out):
    """The result and the winners' offsets, from windows(); PyTorch, where it takes the problem, must say the same."""
    plane = windows(k, x.shape, out)[0]
    outside, mode = torch.from_numpy(plane < 0), k.geometry[-1]
    cells = x.reshape(*x.shape[:2], -1)[..., torch.from_numpy(np.maximum(plane, 0))]
    if mode == "max":
        # padding never wins: -inf comes before it, which the second key of the search says
        values = cells.masked_fill(outside, -np.inf).numpy()
        best = (values == values.max(-1, keepdims=True)) & (plane >= 0) | np.isnan(values)
        best = torch.from_numpy(best.argmax(-1))[..., None]
        y = torch.gather(cells.masked_fill(outside, -np.inf), -1, best)[..., 0].reshape(out)
        winner = torch.gather(torch.from_numpy(plane).expand(cells.shape), -1, best)[..., 0].reshape(out)
    else:
        y, winner = averaged(k, x, out), None
    peer = torch_pool(k, x)
    assert peer is None or torch.allclose(peer, y, 1e-12, 1e-12, equal_nan=True), "windows() and PyTorch disagree"
    return y, winner


def pool_forward(k):
    x, y = pool_geometry(k)
    mode, dtype = k.geometry[-1], k.any("f32", "f16", "bf16")
    k.tensor("x", x, dtype, fill=k.special if mode == "max" else k.normal), k.tensor("y", y, dtype, True)
    indices = mode == "max" and k.rng.random() < 0.6
    if indices:
        k.tensor("indices", y, "i32", True)
    scaled(k, "y", lambda v: (pooled(k, v["x"], y)[0], None if mode == "max" else pooled(k, v["x"].abs(), y)[0]))
    plain = k.want
    k.want = lambda v: plain(v) | ({"indices": (pooled(k, v["x"], y)[1], None)} if indices else {})


def pool_backward(k):
    x, y = pool_geometry(k)
    mode, dtype = k.geometry[-1], k.any("f32", "f16", "bf16")
    k.tensor("dy", y, dtype)
    indices, with_x = mode == "max" and k.rng.random() < 0.6, False
    if indices:
        k.tensor("indices", y, "i32", True)
    if mode == "max" and not indices or k.rng.random() < 0.3:
        with_x = k.tensor("x", x, dtype, fill=lambda n: k.rng.integers(-6, 7, n) / 4)
    k.tensor("dx", x, dtype, True)

    def after(operands):  # winners are those of x, or of any x
        if indices:
            any_x = operands["x"].view.double() if with_x else torch.from_numpy(k.normal(int(np.prod(x)))).reshape(x)
            operands["indices"].view.copy_(pooled(k, any_x, y)[1])

    def sums(v, size):
        dy = sized(v["dy"], size)
        if mode != "max":
            data = torch.zeros(x, dtype=torch.float64, requires_grad=True)
            return torch.autograd.grad(averaged(k, data, y), data, dy)[0]
        winner = v["indices"].long() if indices else pooled(k, v["x"], y)[1]
        flat = torch.zeros(x[0], x[1], int(np.prod(x[2:])) + 1, dtype=torch.float64)
        flat.scatter_add_(2, winner.reshape(*x[:2], -1) + 1, dy.reshape(*x[:2], -1))
        return flat[..., 1:].reshape(x)

    k.after, k.depth = after, int(np.prod(k.geometry[0]))
    scaled(k, "dx", lambda v: (sums(v, False), sums(v, True)))


OPERATIONS = {f.__name__: f for f in (conv_forward, conv_backward_data, conv_backward_filter, conv_backward_bias,
                                      conv_integer, matmul, pool_forward, pool_backward)}
