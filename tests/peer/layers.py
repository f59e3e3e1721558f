# SPDX-License-Identifier: Apache-2.0
"""tests/peer/layers.py: every other operation as PyTorch computes it in f64, and dropout's random numbers by NumPy."""
import numpy as np
import torch
import torch.nn.functional as F

from frame import DTYPES, activated, draw_activation, scaled


# ---- Activation, softmax, losses, normalisation ----

def any_dims(k, least=1, most=5, room=600):
    dims = []
    for _ in range(int(k.rng.integers(least, most + 1))):
        dims.append(int(k.rng.integers(1, max(2, min(room, 18)))))
        room //= dims[-1]
    return dims


def activation_forward(k):
    dims, dtype = any_dims(k), k.any("f32", "f16", "bf16")
    name, coef = draw_activation(k, "relu", "leaky_relu", "clipped_relu", "sigmoid", "tanh")
    smooth = name in ("sigmoid", "tanh")
    k.key("mode", name)
    k.tensor("x", dims, dtype, fill=(lambda n: 3 * k.special(n)) if smooth else k.special)
    k.tensor("y", dims, dtype, True)
    scaled(k, "y", lambda v: (activated(name, coef, v["x"]), torch.full(dims, 4.0) if smooth else
                              v["x"].abs() * abs(coef) if name == "leaky_relu" else None))


def activation_backward(k):
    dims, dtype = any_dims(k), k.any("f32", "f16", "bf16")
    name, coef = draw_activation(k, "relu", "leaky_relu", "clipped_relu", "sigmoid", "tanh")
    smooth, bound = name in ("sigmoid", "tanh"), k.any("x", "y", "xy")
    if name == "leaky_relu" and coef < 0:
        bound = "x"
    k.key("mode", name), k.tensor("dy", dims, dtype)
    for role in bound:
        k.tensor(role, dims, dtype, fill=(lambda n: k.rng.random(n)) if smooth and role == "y" else k.special)
    k.tensor("dx", dims, dtype, True)

    def sums(v):
        at = v["x" if "x" in bound and not (smooth and "y" in bound) else "y"]
        if smooth and "y" in bound:
            slope = {"sigmoid": at * (1 - at), "tanh": 1 - at * at}[name]
        elif smooth:
            at = at.clone().requires_grad_()
            slope = torch.autograd.grad(activated(name, 0, at).sum(), at)[0]
        else:  # PyTorch's slopes at the corners are those of hardtanh; NaN is our own rule
            slope = {"relu": (at > 0).double(), "leaky_relu": torch.where(at > 0, 1.0, float(coef)).double(),
                     "clipped_relu": ((at > 0) & (at < coef)).double()}[name].masked_fill(at.isnan(), np.nan)
        return slope * v["dy"], (8 * v["dy"].abs() if smooth else (slope * v["dy"]).abs())

    scaled(k, "dx", sums)


def softmax_axes(k, dims):
    axes = sorted(int(a) for a in k.rng.choice(len(dims), int(k.rng.integers(1, len(dims) + 1)), replace=False))
    if len(dims) > 1 and k.rng.random() < 0.4:
        return [1]
    return k.key("axes", axes)


def rows(t, axes):
    """The axes joined into one last axis, and the way back."""
    kept = [a for a in range(t.dim()) if a not in axes]
    order = kept + axes
    moved = t.permute(order)
    flat = moved.reshape([t.shape[a] for a in kept] + [-1])
    return flat, lambda r: r.reshape(moved.shape).permute([order.index(a) for a in range(t.dim())])


def softmax_forward(k):
    dims, dtype = any_dims(k), k.any("f32", "f16", "bf16")
    axes, log = softmax_axes(k, dims), k.key("mode", k.any("softmax", "log")) == "log"
    k.tensor("x", dims, dtype, fill=lambda n: 3 * k.special(n)), k.tensor("y", dims, dtype, True)
    k.depth = int(np.prod([dims[a] for a in axes]))

    def sums(v):
        flat, back = rows(v["x"], axes)
        y = back((torch.log_softmax if log else torch.softmax)(flat, -1))
        return y, (y.abs().nan_to_num() + 20 if log else 13 * y)

    scaled(k, "y", sums)


def softmax_backward(k):
    dims, dtype = any_dims(k), k.any("f32", "f16", "bf16")
    axes, log = softmax_axes(k, dims), k.key("mode", k.any("softmax", "log")) == "log"
    k.tensor("y", dims, dtype, fill=lambda n: -5 * k.rng.random(n) if log else k.rng.random(n) / 4)
    k.tensor("dy", dims, dtype), k.tensor("dx", dims, dtype, True)
    k.depth = int(np.prod([dims[a] for a in axes]))

    def sums(v):
        (y, back), (dy, _) = rows(v["y"], axes), rows(v["dy"], axes)
        if log:
            return (back(torch._log_softmax_backward_data(dy, y, -1, torch.float64)),
                    back(dy.abs() + 8 * y.exp() * dy.abs().sum(-1, True)))
        return (back(torch._softmax_backward_data(dy, y, -1, torch.float64)),
                back(y * (dy.abs() + (dy * y).abs().sum(-1, True))))

    scaled(k, "dx", sums)


def cross_entropy(k, backward):
    dims, dtype = any_dims(k, 2), k.any("f32", "f16", "bf16")
    reduction = k.key("reduction", k.any("mean", "sum", "none"))
    classes, label_dims = dims[1], [dims[0], 1] + dims[2:]
    low, high = k.any((0, classes), (-2, classes), (-2, classes), (-3, 0), (-1, classes + 1))
    k.tensor("x", dims, dtype, fill=lambda n: 3 * k.normal(n))
    k.tensor("labels", label_dims, k.any("i32", "i64"), fill=lambda n: k.rng.integers(low, high, n))
    smoothing = k.scalar("smoothing", 0, 0, 0.1, 0.5, 1)
    loss_dims = label_dims if reduction == "none" else [1] * len(dims)
    with_dloss = backward and k.rng.random() < 0.6
    if with_dloss:
        k.tensor("dloss", loss_dims, "f32")
    k.tensor("dx" if backward else "loss", dims if backward else loss_dims, dtype if backward else "f32", True)
    k.depth = classes + int(np.prod(label_dims))

    def want(v):
        x, labels = v["x"].clone().requires_grad_(), v["labels"].long()
        bad, left_out = labels >= classes, labels < 0
        labels = labels.masked_fill(bad, 0).masked_fill(left_out, -100)[:, 0]
        loss = F.cross_entropy(x, labels, reduction="none", label_smoothing=smoothing)[:, None] \
            if reduction == "none" else F.cross_entropy(x, labels, reduction=reduction, label_smoothing=smoothing)
        loss = loss.reshape(loss_dims)
        if bool(left_out.all()) and reduction != "none":
            loss = (x * 0).sum().reshape(loss_dims)  # PyTorch's mean over no row is NaN
        row = 2 + 2 * v["x"].abs().max() + np.log(classes)
        counted = max(1, int((~left_out).sum()))
        if backward:
            g = v["dloss"] if with_dloss else torch.ones(loss_dims, dtype=torch.float64)
            dx = torch.autograd.grad(loss, x, g)[0].masked_fill(bad, np.nan)
            return {"dx": (dx, row * g.abs().max() / (counted if reduction == "mean" else 1) * torch.ones(dims))}
        loss = loss.detach()
        if bool(bad.any()):
            loss = loss.masked_fill(bad if reduction == "none" else torch.ones(loss_dims, dtype=torch.bool), np.nan)
        return {"loss": (loss, row * (counted if reduction == "sum" else 1) * torch.ones(loss_dims))}

    k.want = want


def cross_entropy_forward(k):
    cross_entropy(k, False)


def cross_entropy_backward(k):
    cross_entropy(k, True)


class Batchnorm:
    """Shapes of the three operations: x as [N, groups, elements], statistics and parameters as [groups]."""

    def __init__(self, k):
        dims = [int(k.rng.integers(1, 7)), int(k.rng.integers(1, 6))]
        dims += [int(k.rng.integers(1, 6)) for _ in range(int(k.rng.integers(0, 4)))]
        spatial = k.key("mode", k.any("spatial", "per_activation")) == "spatial"
        self.dims, self.dtype = dims, k.any("f32", "f16", "bf16")
        self.params = [1, dims[1]] + ([1] * (len(dims) - 2) if spatial else dims[2:])
        self.shape = [dims[0], int(np.prod(self.params)), -1]
        self.n = int(np.prod(dims)) // self.shape[1]
        self.epsilon = k.scalar("epsilon", 1e-5, 1e-3, 0.1)
        k.depth = self.n

    def data(self, t):
        return t.reshape(self.shape)

    def forward(self, v, mean, var, training, factor):
        return torch.native_batch_norm(self.data(v["x"]), v["gamma"].reshape(-1), v["shift"].reshape(-1), mean, var,
                                       training, factor, self.epsilon)

    def reach(self, v, mean, invstd):
        """Largest |x| and |x - mean| of each group in units of its deviation."""
        x, most = self.data(v["x"]), lambda t: t.abs().amax((0, 2), keepdim=True)
        invstd = invstd.reshape(1, -1, 1)
        return most(x) * invstd, most(x - mean.reshape(1, -1, 1)) * invstd


def positive(k):
    return lambda n: 0.2 + k.rng.random(n)


def batchnorm_training(k):
    b = Batchnorm(k)
    k.tensor("x", b.dims, b.dtype, fill=lambda n: 1 + 2 * k.normal(n))
    k.tensor("gamma", b.params, "f32"), k.tensor("shift", b.params, "f32"), k.tensor("y", b.dims, b.dtype, True)
    saved = k.any((), ("saved_mean", "saved_invstd"))
    for role in saved:
        k.tensor(role, b.params, "f32", True)
    running = k.rng.random() < 0.6
    if running:
        k.tensor("running_mean", b.params, "f32", True), k.tensor("running_var", b.params, "f32", True, positive(k))
    factor = k.scalar("factor", 0.1, 0, 0.3, 1)

    def outputs(v):
        old = [v[r].reshape(-1) if running else None for r in ("running_mean", "running_var")]
        new = [None if t is None else t.clone() for t in old]
        y, mean, invstd = b.forward(v, *new, True, factor)
        if running and b.n == 1:
            new[1] = (1 - factor) * old[1]  # PyTorch divides by n - 1 there
        largest, apart = b.reach(v, mean, invstd)
        result = {"y": (y.reshape(b.dims), (v["gamma"].reshape(1, -1, 1).abs() * (largest + 2 * apart) +
                                            v["shift"].reshape(1, -1, 1).abs()).expand_as(y).reshape(b.dims))}
        sizes = {"saved_mean": (mean, (largest.reshape(-1) / invstd)), "saved_invstd": (invstd, 2 * invstd)}
        result |= {r: sizes[r] for r in saved}
        if running:
            result["running_mean"] = new[0], old[0].abs() + factor * largest.reshape(-1) / invstd
            result["running_var"] = new[1], old[1].abs() + 2 * factor * new[1].abs()
        return result

    scaled(k, "y", lambda v: outputs(v)["y"])
    plain = k.want
    k.want = lambda v: outputs(v) | plain(v)


def batchnorm_inference(k):
    b = Batchnorm(k)
    k.tensor("x", b.dims, b.dtype), k.tensor("gamma", b.params, "f32"), k.tensor("shift", b.params, "f32")
    k.tensor("running_mean", b.params, "f32"), k.tensor("running_var", b.params, "f32", fill=positive(k))
    k.tensor("y", b.dims, b.dtype, True)
    k.depth = 1

    def sums(v):
        mean, var = v["running_mean"].reshape(-1), v["running_var"].reshape(-1)
        y = b.forward(v, mean, var, False, 0)[0]
        size = (b.data(v["x"]).abs() + mean.reshape(1, -1, 1).abs()) / (var + b.epsilon).sqrt().reshape(1, -1, 1)
        size = size * v["gamma"].reshape(1, -1, 1).abs() + v["shift"].reshape(1, -1, 1).abs()
        return y.reshape(b.dims), size.reshape(b.dims)

    scaled(k, "y", sums)


def batchnorm_backward(k):
    b = Batchnorm(k)
    k.tensor("x", b.dims, b.dtype, fill=lambda n: 1 + 2 * k.normal(n)), k.tensor("dy", b.dims, b.dtype)
    k.tensor("gamma", b.params, "f32")
    saved = k.rng.random() < 0.5
    if saved:
        k.tensor("saved_mean", b.params, "f32"), k.tensor("saved_invstd", b.params, "f32", fill=positive(k))
    k.tensor("dx", b.dims, b.dtype, True)
    k.tensor("dgamma", b.params, "f32", True), k.tensor("dshift", b.params, "f32", True)

    def outputs(v):
        gamma = v["gamma"].reshape(-1)
        if saved:
            mean, invstd = v["saved_mean"].reshape(-1), v["saved_invstd"].reshape(-1)
        else:
            mean, invstd = b.forward(v | {"shift": v["gamma"]}, None, None, True, 0)[1:]
        x, dy = b.data(v["x"]), b.data(v["dy"])
        dx, dgamma, dshift = torch.ops.aten.native_batch_norm_backward(dy, x, gamma, None, None, mean, invstd, True,
                                                                      b.epsilon, [True] * 3)
        far, apart = b.reach(v, mean, invstd)
        total = dy.abs().sum((0, 2), keepdim=True)
        each = 2 * dy.abs() + 2 * total / b.n + apart * total * (6 * apart + 2 * far) / b.n
        size = (gamma * invstd).abs().reshape(1, -1, 1) * each
        return {"dx": (dx.reshape(b.dims), size.reshape(b.dims)), "dshift": (dshift, total.reshape(-1)),
                "dgamma": (dgamma, (total * (3 * apart + far)).reshape(-1))}

    scaled(k, "dx", lambda v: outputs(v)["dx"])
    plain = k.want
    k.want = lambda v: outputs(v) | plain(v)


# ---- Binary, reduce, elementwise ----

BINARY = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "max": torch.maximum,
          "min": torch.minimum}


def binary_operands(k, backward=False):
    dims, dtype, mode = any_dims(k), k.any("f32", "f16", "bf16"), k.key("mode", k.any(*BINARY))
    shape = lambda: [1 if k.rng.random() < 0.3 else d for d in dims]
    a, b = shape(), shape()
    dims = [max(i, j) for i, j in zip(a, b)]
    away = lambda n: (0.25 + k.rng.random(n)) * k.rng.choice([-1, 1], n)
    chosen = k.special if mode in ("max", "min") and not backward else lambda n: k.rng.integers(-6, 7, n) / 4
    fill = chosen if mode in ("max", "min") else k.normal
    k.tensor("a", a, dtype, fill=fill), k.tensor("b", b, dtype, fill=away if mode == "div" else fill)
    return dims, dtype, mode, a, b


def binary(k):
    dims, dtype, mode, _, _ = binary_operands(k)
    k.tensor("y", dims, dtype, True)
    alpha, beta = k.scalar("alpha", 1, 0, 1, 0.3, -2), k.scalar("beta", 0, 0, 1, 0.7)
    alpha2 = k.scalar("alpha2", 1, 1, -0.5)

    def want(v):
        a, b = alpha * v["a"] if alpha else torch.zeros_like(v["a"]), alpha2 * v["b"]
        result, old = BINARY[mode](a, b), beta * v["y"] if beta else torch.zeros(())
        size = result.abs() if mode in ("mul", "div") else a.abs() + b.abs()
        exact = mode in ("max", "min") and alpha in (0, 1) and alpha2 == 1 and not beta
        return {"y": (result + old, None if exact else size + old.abs())}

    k.want = want


def binary_backward(k):
    dims, dtype, mode, a, b = binary_operands(k, True)
    k.tensor("dy", dims, dtype)
    outputs = k.any(("da",), ("db",), ("da", "db"))
    for role in outputs:
        k.tensor(role, a if role == "da" else b, dtype, True)
    k.depth = max(int(np.prod(dims)) // int(np.prod(d)) for d in (a, b))
    alpha, beta = k.scalar("alpha", 1, 0, 1, 0.3, -2), k.scalar("beta", 0, 0, 1, 0.7)

    def gradients(v, f):
        x, y = v["a"].clone().requires_grad_(), v["b"].clone().requires_grad_()
        whole = [t.expand(dims) for t in (x, y)]
        if mode in ("max", "min"):  # PyTorch halves the gradient of ties; here a has it
            first = whole[0] >= whole[1] if mode == "max" else whole[0] <= whole[1]
            result = torch.where(first, *whole)
        else:
            result = BINARY[mode](*whole)
        each = torch.autograd.grad(result, whole, v["dy"], allow_unused=True)
        return {r: f(g).sum_to_size(d) for r, g, d in zip(("da", "db"), each, (a, b))}

    def want(v):
        result, size = gradients(v, lambda t: t), gradients(v, torch.abs)
        old = {r: beta * v[r] if beta else torch.zeros(()) for r in outputs}
        return {r: (alpha * result[r] + old[r], 4 * abs(alpha) * size[r] + old[r].abs()) for r in outputs}

    k.want = want


def reduce(k):
    dims, dtype = any_dims(k), k.any("f32", "f16", "bf16")
    mode = k.key("mode", k.any("sum", "mean", "max", "min", "amax", "norm1", "norm2"))
    axes = reduce_axes(k, dims)
    k.tensor("x", dims, dtype, fill=k.special if mode in ("max", "min", "amax") else k.normal)
    k.tensor("y", [1 if i in axes else d for i, d in enumerate(dims)], dtype, True)
    k.depth = int(np.prod([dims[a] for a in axes]))
    f = {"sum": lambda x: x.sum(axes, True), "mean": lambda x: x.mean(axes, True), "max": lambda x: x.amax(axes, True),
         "min": lambda x: x.amin(axes, True), "amax": lambda x: x.abs().amax(axes, True),
         "norm1": lambda x: torch.linalg.vector_norm(x, 1, axes, True),
         "norm2": lambda x: torch.linalg.vector_norm(x, 2, axes, True)}[mode]
    scaled(k, "y", lambda v: (f(v["x"]), None if mode in ("max", "min", "amax") else f(v["x"].abs())))


def reduce_axes(k, dims):
    if k.rng.random() < 0.2:
        return list(range(len(dims)))
    axes = k.rng.choice(len(dims), int(k.rng.integers(1, len(dims) + 1)), replace=False)
    return k.key("axes", sorted(int(a) for a in axes))


def reduce_backward(k):
    dims, dtype, mode = any_dims(k), k.any("f32", "f16", "bf16"), k.key("mode", k.any("sum", "mean", "max"))
    axes = reduce_axes(k, dims)
    if mode == "max":
        k.tensor("x", dims, dtype, fill=lambda n: k.rng.integers(-3, 4, n))
    k.tensor("dy", [1 if i in axes else d for i, d in enumerate(dims)], dtype), k.tensor("dx", dims, dtype, True)

    def sums(v):
        dy = v["dy"].expand(dims)
        if mode != "max":
            dx = dy / (np.prod([dims[a] for a in axes]) if mode == "mean" else 1)
            return dx, dx.abs() if mode == "mean" else None
        flat, back = rows(v["x"], axes)
        first = torch.from_numpy(flat.numpy().argmax(-1, keepdims=True))
        return back(torch.zeros_like(flat).scatter_(-1, first, 1)) * dy, None

    scaled(k, "dx", sums)


def converted(value, dtype):
    """As COPY converts: nearest, ties to even, saturated, NaN 0."""
    if DTYPES[dtype].is_floating_point:
        return torch.where(value.abs() >= 65520, value.sign() * np.inf, value) if dtype == "f16" else value
    info = torch.iinfo(DTYPES[dtype])
    return value.round().nan_to_num(0, np.inf, -np.inf).clamp(info.min, info.max)


def copy(k):
    dims, xt, yt = any_dims(k), k.any(*DTYPES), k.any(*DTYPES)
    whole = [not DTYPES[t].is_floating_point for t in (xt, yt)]
    reach = {"u8": 255, "i8": 127, "i32": k.any(127, 2**31 - 1), "i64": k.any(127, 2**52)}.get(xt, 0)
    k.tensor("x", dims, xt, fill=(lambda n: k.rng.integers(0 if xt == "u8" else -reach, reach + 1, n)) if whole[0] else
             k.any(lambda n: 60 * k.normal(n), lambda n: 50 * k.special(n), lambda n: k.rng.integers(-600, 600, n) / 2))
    k.tensor("y", dims, yt, True)
    alpha, beta = 1, 0
    if reach < 256:  # larger ones are scaled in what the device has
        alpha = k.scalar("alpha", 1, 0, 1, 0.5, -2) if whole[1] else k.scalar("alpha", 1, 0, 1, 0.3, -2)
        beta = k.scalar("beta", 0, 0, 1, 0.5)

    def want(v):
        x, old = alpha * v["x"] if alpha else torch.zeros(dims), beta * v["y"] if beta else torch.zeros(())
        return {"y": (converted(x + old, yt), x.abs().nan_to_num() + old.abs() if alpha != 1 or beta else None)}

    k.want = want


def fill(k):
    dims, dtype = any_dims(k), k.any(*DTYPES)
    k.tensor("y", dims, dtype, True)
    value = k.scalar("value", 0, 1.5, -300, 0.1, 2.5, 77777)
    want = torch.full(dims, float(value), dtype=torch.float64)
    k.want = lambda v: {"y": (converted(want, dtype), None)}


def scale(k):
    dims, dtype = any_dims(k), k.any("f32", "f16", "bf16")
    k.tensor("y", dims, dtype, True, fill=k.normal)
    alpha = k.scalar("alpha", 1, 0, 1, 0.3, -2)
    k.want = lambda v: {"y": (alpha * v["y"], (alpha * v["y"]).abs())}


# ---- Dropout, optimisers ----

def philox(key, counters):
    """Philox4x32-10 (Salmon et al., SC 2011): the four words of each counter, in order."""
    low = np.uint64(0xFFFFFFFF)
    words = [np.array([(n >> 32 * i) & 0xFFFFFFFF for n in counters], dtype=np.uint64) for i in range(4)]
    keys = [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        a, b = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
        words = [(b >> np.uint64(32)) ^ words[1] ^ np.uint64(keys[0]), b & low,
                 (a >> np.uint64(32)) ^ words[3] ^ np.uint64(keys[1]), a & low]
        keys = [(keys[0] + 0x9E3779B9) & 0xFFFFFFFF, (keys[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.stack(words, 1).reshape(-1)


assert [hex(w) for w in philox(0, [0])] == ["0x6627e8d5", "0xe169c58d", "0xbc57ac4c", "0x9b00dbd8"]


def dropout(k, x, y):
    dims, dtype = any_dims(k), k.any("f32", "f16", "bf16")
    k.tensor(x, dims, dtype), k.tensor(y, dims, dtype, True)
    ratio, count = k.scalar("ratio", 0.5, 0, 0.1, 0.9, 1), int(np.prod(dims))
    seed = k.scalar("rng_seed", 0, 7, 2**31 + 5, 2**45 + 3, "device:9007199254740001")
    offset = k.scalar("rng_offset", 0, 5, 2**32 - 2, 2**40, "device:4294967294")
    seed, offset = (int(str(n).replace("device:", "")) for n in (seed, offset))
    kept = philox(seed, [offset + i for i in range((count + 3) // 4)])[:count]
    kept = torch.from_numpy((kept >> np.uint64(8)).astype(np.float64) * 2.0**-24 >= np.float32(ratio)).reshape(dims)
    if count > 200:
        expected = (1 - ratio) * count
        assert abs(int(kept.sum()) - expected) < 1 + 6 * np.sqrt(count * ratio * (1 - ratio)), "no fair share is kept"

    def want(v):
        result = torch.where(kept, v[x] / (1 - ratio if ratio < 1 else 1), 0) if ratio < 1 else torch.zeros(dims)
        return {y: (result, result.abs())}

    k.want = want


def dropout_forward(k):
    dropout(k, "x", "y")


def dropout_backward(k):
    dropout(k, "dy", "dx")


def optimizer(k, adam):
    dims, types = any_dims(k), ("f32", "f16", "bf16")
    momentum = 0 if adam else k.any(0, 0.9)
    k.tensor("grad", dims, k.any(*types)), k.tensor("param", dims, k.any(*types), True)
    decay, lr = k.scalar("weight_decay", 0, 0.1), k.key("lr", k.any(0.01, 0.1, "device:0.05"))
    lr = float(str(lr).replace("device:", ""))
    with_moment = adam or momentum or k.rng.random() < 0.3
    if with_moment:
        k.tensor("moment1", dims, "f32", True)
    if adam:
        k.tensor("moment2", dims, "f32", True, fill=k.any(lambda n: k.rng.random(n), lambda n: np.zeros(n)))
        betas = k.scalar("beta1", 0.9, 0.5, 0.8), k.scalar("beta2", 0.999, 0.9, 0.99)
        epsilon, step = k.scalar("epsilon", 1e-8, 1e-3), k.scalar("step", 1, 2, 10, 1000, "device:7")
        step, decoupled = int(str(step).replace("device:", "")), k.key("decoupled", k.any(0, 1))
    else:
        k.key("momentum", momentum)
        nesterov = k.key("nesterov", k.any(0, 1)) if momentum else 0

    def want(v):
        p = v["param"].clone().requires_grad_()
        p.grad, moment = v["grad"].clone(), v["moment1"].clone() if with_moment else None
        if adam:
            kind = torch.optim.AdamW if decoupled else torch.optim.Adam
            o = kind([p], lr, betas, epsilon, decay)
            o.state[p] = {"step": torch.tensor(step - 1.0), "exp_avg": moment, "exp_avg_sq": v["moment2"].clone()}
        else:
            o = torch.optim.SGD([p], lr, momentum, 0, decay, bool(nesterov))
            if with_moment:
                o.state[p] = {"momentum_buffer": moment}
        o.step()
        g = v["grad"].abs() + decay * v["param"].abs()
        result = {"param": (p.detach(), v["param"].abs() + (p.detach() - v["param"]).abs() + lr * g)}
        if adam:
            first = betas[0] * v["moment1"].abs() + (1 - betas[0]) * g
            second = o.state[p]["exp_avg_sq"]
            result["moment1"] = o.state[p]["exp_avg"], first
            result["moment2"] = second, second + (1 - betas[1]) * g**2
            # the roundings of g reach the root through m2
            signed = v["grad"] + (0 if decoupled else decay * v["param"])
            unsure = 2 + (1 - betas[1]) * signed.abs() * g / second.clamp(min=1e-300)
            update = lr * first * unsure / (1 - betas[0]**step) / ((second / (1 - betas[1]**step)).sqrt() + epsilon)
            result["param"] = p.detach(), v["param"].abs() * (1 + lr * decay) + update
        elif with_moment:
            m = o.state[p]["momentum_buffer"] if momentum else g
            result["moment1"] = (m if momentum else v["grad"] + decay * v["param"], momentum * v["moment1"].abs() + g)
            result["param"] = (p.detach(), result["param"][1] + 2 * lr * (momentum * v["moment1"].abs() + g))
        return result

    k.want = want


def sgd(k):
    optimizer(k, False)


def adam(k):
    optimizer(k, True)


OPERATIONS = {f.__name__: f for f in (
    activation_forward, activation_backward, softmax_forward, softmax_backward, cross_entropy_forward,
    cross_entropy_backward, batchnorm_training, batchnorm_inference, batchnorm_backward, binary, binary_backward,
    reduce, reduce_backward, copy, fill, scale, dropout_forward, dropout_backward, sgd, adam)}
