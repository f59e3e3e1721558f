# SPDX-License-Identifier: Apache-2.0
"""tests/peer/frame.py: the library through its public C API, problems drawn at random, and the comparison of results
with what is wanted. The tolerance is explained in torch_peer.py."""
import ctypes as c

import numpy as np
import torch
import torch.nn.functional as F

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64, "i8": torch.int8,
          "u8": torch.uint8, "i32": torch.int32, "i64": torch.int64}
ROUND = {"f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8, "f64": 2.0**-53}  # half a unit in the last place of 1
LEAST = {"f32": 2.0**-150, "f16": 2.0**-25, "bf16": 2.0**-134, "f64": 0}      # half of the least subnormal number
CODES = {1: "f32", 2: "f16", 3: "bf16", 4: "f64", 5: "i8", 6: "u8", 7: "i32", 8: "i64"}
ROLE_IN = 1


# ---- The library ----

class Tensor(c.Structure):
    _fields_ = [("dtype", c.c_int32), ("ndim", c.c_int32), ("alignment", c.c_int32), ("reserved0", c.c_int32),
                ("dims", c.c_int64 * 8), ("strides", c.c_int64 * 8), ("reserved", c.c_int64 * 2)]


class Memory(c.Structure):
    _fields_ = [("base", c.c_void_p), ("offset", c.c_uint64), ("size", c.c_uint64), ("kind", c.c_int32),
                ("reserved", c.c_int32)]


class Binding(c.Structure):
    _fields_ = [("role", c.c_int32), ("index", c.c_int32), ("tensor", c.POINTER(Tensor)), ("mem", Memory),
                ("value", c.c_double), ("reserved", c.c_int64)]


class Operand:
    """A tensor role: host storage in its dtype, and the tensor as a view of it."""

    def __init__(self, tensor, offset, flags):
        dims, strides = list(tensor.dims[:tensor.ndim]), list(tensor.strides[:tensor.ndim])
        self.dtype, self.flags = CODES[tensor.dtype], flags
        self.first = offset // DTYPES[self.dtype].itemsize
        last = sum((d - 1) * s for d, s in zip(dims, strides)) if 0 not in dims else -1
        self.storage = torch.zeros(self.first + last + 4, dtype=DTYPES[self.dtype])
        self.view = self.storage.as_strided(dims, strides, self.first)


class Library:
    """A device of the library; run() carries out one problem line."""

    def __init__(self, path, device):
        self.lib, self.context, self.stream = c.CDLL(path), c.c_void_p(), c.c_void_p()
        for name in ("anydnn_message", "anydnn_role_name"):
            getattr(self.lib, name).restype = c.c_char_p
        for name in ("anydnn_problem_op", "anydnn_problem_prefs"):
            getattr(self.lib, name).restype = c.c_void_p
        self.lib.anydnn_problem_bindings.restype = c.POINTER(Binding)
        self.lib.anydnn_free.argtypes = [c.c_void_p, Memory]
        self.lib.anydnn_copy_in.argtypes = [c.c_void_p, Memory, c.c_void_p, c.c_uint64]
        self.lib.anydnn_copy_out.argtypes = [c.c_void_p, c.c_void_p, Memory, c.c_uint64]
        self.lib.anydnn_alloc.argtypes = [c.c_void_p, c.c_uint64, c.POINTER(Memory)]
        self.call("anydnn_open", device.encode(), None, c.byref(self.context))
        self.call("anydnn_stream_create", self.context, c.c_uint64(0), c.byref(self.stream))

    def call(self, name, *arguments):
        if getattr(self.lib, name)(*arguments) != 0:
            raise RuntimeError(f"{name}: {self.lib.anydnn_message().decode()}")

    def flags(self, op, role):
        flags, index = c.c_uint32(), 0
        while (found := self.lib.anydnn_op_role(op, index, c.byref(flags))) != 0:
            if found == role:
                return flags.value
            index += 1
        raise KeyError(role)

    def place(self, host, size):
        """Device memory with a copy of host memory."""
        memory = Memory()
        self.call("anydnn_alloc", self.context, size, c.byref(memory))
        self.call("anydnn_copy_in", self.stream, memory, host, size)
        self.call("anydnn_stream_sync", self.stream)
        return memory

    def operands(self, problem, bindings, names):
        """The tensors of a problem by name, and which of them lie in the place of another."""
        number = c.cast(self.lib.anydnn_problem_op(problem), c.POINTER(c.c_int32))[1]
        roles = [b.role for b in bindings]
        operands = {name: Operand(b.tensor.contents, b.mem.offset, self.flags(number, b.role))
                    for name, b in zip(names, bindings) if b.tensor}
        alias = {name: names[roles.index(shared)] for name, role in zip(names, roles)
                 if (shared := self.lib.anydnn_problem_alias(problem, role))}
        for name, shared in alias.items():
            o = operands[name]
            o.storage = operands[shared].storage
            o.view = o.storage.as_strided(o.view.shape, o.view.stride(), o.first)
        return operands, alias

    def run(self, line, prepare):
        """Parses the line, lets prepare(operands, alias) fill the storages, runs, and reads the storages back."""
        problem, count = c.c_void_p(), c.c_int()
        self.call("anydnn_problem_parse", line.encode(), c.byref(problem))
        rows = self.lib.anydnn_problem_bindings(problem, c.byref(count))
        bindings = (Binding * count.value)(*rows[:count.value])
        names = [self.lib.anydnn_role_name(b.role).decode() for b in bindings]
        operands, alias = self.operands(problem, bindings, names)
        prepare(operands, alias)
        places = {name: self.place(o.storage.data_ptr(), o.storage.nbytes) for name, o in operands.items()
                  if name not in alias}
        for name, binding in zip(names, bindings):
            if name in operands:
                offset, binding.mem = binding.mem.offset, places[alias.get(name, name)]
                binding.mem.offset = offset
            elif binding.mem.kind:  # a scalar of the device
                value = c.c_float(binding.value) if name == "lr" else c.c_int64(int(binding.value))
                binding.mem = places[name] = self.place(c.byref(value), c.sizeof(value))
        op, prefs = (c.c_void_p(f(problem)) for f in (self.lib.anydnn_problem_op, self.lib.anydnn_problem_prefs))
        self.call("anydnn_run", self.stream, op, prefs, bindings, count)
        for name in operands.keys() & places.keys():
            storage = operands[name].storage
            self.call("anydnn_copy_out", self.stream, storage.data_ptr(), places[name], storage.nbytes)
        self.call("anydnn_stream_sync", self.stream)
        for place in places.values():
            self.call("anydnn_free", self.context, place)
        self.lib.anydnn_problem_destroy(problem)


# ---- One problem ----

class Case:
    """A line as it is drawn, how its roles are filled, and want(v): {role: (result, magnitudes)}, where v holds the f64
    values of all tensors before the call; magnitudes None = equal. `depth` is the length of the longest sum."""

    def __init__(self, rng, op):
        self.rng, self.words, self.fill, self.depth, self.reads_output, self.want = rng, [op], {}, 1, False, None
        self.after = None

    def any(self, *choices):
        return choices[self.rng.integers(len(choices))]

    def key(self, name, value):
        self.words.append(f"{name}={','.join(map(str, value)) if isinstance(value, (list, tuple)) else value}")
        return value

    def scalar(self, name, default, *choices):
        """Half of the time unbound, else one of the choices."""
        value = self.any(*choices)
        if self.rng.random() < 0.5:
            return default
        if name == "beta":
            self.reads_output = value != 0
        return self.key(name, value)

    def tensor(self, role, dims, dtype, output=False, fill=None, alias=""):
        """Adds a tensor in a layout of its own (with stride 0 only where it is no output), or that of its alias."""
        if alias:
            shared = next(word for word in self.words if word.startswith(alias + "="))
            self.words.append(f"{role}{shared[len(alias):]}&{alias}")
            return dims
        text, size = "x".join(map(str, dims)), DTYPES[dtype].itemsize
        kind = self.rng.integers(6)
        if kind == 2 and len(dims) > 2:
            text += ":nhwc"
        elif kind > 2:
            order = list(range(len(dims)))
            if kind > 3:
                self.rng.shuffle(order)
            strides, stride = [0] * len(dims), 1 + int(self.rng.integers(3))
            for axis in reversed(order):
                strides[axis] = 0 if kind == 5 and not output and self.rng.random() < 0.5 else stride
                stride = stride * max(dims[axis], 1) + int(self.rng.integers(3))
            text += ":s" + ",".join(map(str, strides))
        offset = int(self.rng.integers(4)) * size * (self.rng.random() < 0.3)
        self.words.append(f"{role}={text}/{dtype}" + (f"@{offset}" if offset else ""))
        if fill:
            self.fill[role] = fill
        return dims

    def normal(self, count):
        return self.rng.standard_normal(count)

    def special(self, count):
        """Ties, and now and then NaN and infinities."""
        values = self.rng.integers(-6, 7, count) / 4
        if self.rng.random() < 0.4:
            odd = self.rng.random(count) < 0.05
            values = np.where(odd, self.rng.choice([np.nan, np.inf, -np.inf], count), values)
        return values

    def prepare(self, operands, alias):
        for name, o in operands.items():
            if name in alias:
                continue
            n = o.storage.numel()
            shared = [operands[k] for k, target in alias.items() if target == name]
            written_only = not any(x.flags & ROLE_IN for x in [o] + shared)
            whole = not DTYPES[o.dtype].is_floating_point
            if name in self.fill:
                values = self.fill[name](n)
            elif written_only and not self.reads_output:
                values = np.full(n, 77 if whole else np.nan)
            else:
                values = self.rng.integers(-100 if o.dtype != "u8" else 0, 101, n) if whole else self.normal(n)
            o.storage.copy_(torch.from_numpy(np.ascontiguousarray(values)))
        if self.after:
            self.after(operands)
        self.before = {name: o.view.clone().double() for name, o in operands.items()}
        self.stored = {name: o.storage.clone() for name, o in operands.items()}
        self.operands, self.alias = operands, alias


def equal_bits(a, b):
    return torch.equal(a.view(torch.uint8), b.view(torch.uint8))


def judge(case):
    """What is wrong with the results ("" = nothing), and the largest error in units of its tolerance."""
    worst, wants = 0.0, case.want(case.before)
    written = {case.alias.get(name, name) for name in wants}
    for name, o in case.operands.items():
        if name in case.alias:
            continue
        left = o.storage.clone()
        for other in [name] + [k for k, target in case.alias.items() if target == name]:
            if other in wants:
                x = case.operands[other].view
                left.as_strided(x.shape, x.stride(), case.operands[other].first).copy_(
                    case.stored[name].as_strided(x.shape, x.stride(), case.operands[other].first))
        if not equal_bits(left, case.stored[name]):
            return f"{name} changed " + ("outside its elements" if name in written else "though it is an input"), 0
    for name, (want, size) in wants.items():
        o = case.operands[name]
        got = o.view.double()
        want = want.double().expand(got.shape) if want.dim() == got.dim() else want.double().reshape(got.shape)
        if DTYPES[o.dtype].is_floating_point:
            work = ROUND["f64" if o.dtype == "f64" else "f32"]
            size = torch.zeros_like(want) if size is None else size.double().reshape(want.shape)
            slack = work * (case.depth + 8) * size
            slack = slack + ROUND[o.dtype] * (want.abs() + slack) * (1 + 1e-9) + LEAST[o.dtype]
        else:
            slack = torch.zeros_like(want)
        same = (got == want) | (got.isnan() & want.isnan())
        off = torch.where(same, torch.zeros_like(want), (got - want).abs() / slack.clamp(min=1e-300))
        off = torch.where(off.isnan(), torch.full_like(off, np.inf), off)
        if off.numel() and off.max() > 1:
            at = tuple(int(i) for i in np.unravel_index(int(off.argmax()), off.shape))
            return f"{name}{list(at)} is {got[at].item()!r}, not {want[at].item()!r} +- {slack[at].item():.3g}", 0
        worst = max(worst, off.max().item() if off.numel() else 0)
    return "", worst


# ---- What operations share ----

def activated(name, coef, v):
    return {"identity": lambda: v, "relu": lambda: F.relu(v), "leaky_relu": lambda: F.leaky_relu(v, coef),
            "clipped_relu": lambda: v.clamp(0, coef), "sigmoid": lambda: torch.sigmoid(v),
            "tanh": lambda: torch.tanh(v)}[name]()


def draw_activation(k, *names):
    name = k.any(*names)
    coef = {"leaky_relu": 0.01, "clipped_relu": 6}.get(name, 0)
    if coef:
        coef = k.scalar("coef", coef, *((0.25, -0.5, 1.5) if name == "leaky_relu" else (0.5, 1, 3)))
    return name, coef


def scaled(k, out, sums):
    """alpha * sums + beta * out."""
    alpha, beta = k.scalar("alpha", 1, 0, 1, 0.3, -2), k.scalar("beta", 0, 0, 1, 0.7)

    def want(v):
        result, size = sums(v)
        old = beta * v[out] if beta else torch.zeros(())
        exact = size is None and alpha == 1 and not beta
        size = result.abs() if size is None else size
        # with alpha = 0 what alpha scales is not read, NaN and infinities included
        result, size = (alpha * result, abs(alpha) * size) if alpha else (torch.zeros_like(result),) * 2
        return {out: (result + old, None if exact else size + old.abs())}

    k.want = want
