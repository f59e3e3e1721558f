#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tests/peer/torch_peer.py LIBRARY [DEVICE] [--seed N] [--count N] [--op NAME] [-v]: compares a device of libanydnn
with PyTorch on the CPU, and with NumPy where PyTorch cannot say it: the CPU reference, which every other test trusts,
is checked against an implementation that shares nothing with it.

Draws COUNT legal problems of each operation from SEED, as problem lines (anydnn/problem.h): what differs can be run
again with `anydnn check LINE`. Layouts are packed, channels last, with gaps, permuted, and for inputs with stride 0;
outputs that are not read hold NaN before the call, and nothing outside an output may change.

Tolerance: PyTorch computes in f64 from the very values that the library is given. With u = 2^-24 (f64: 2^-53) a sum
of d terms of magnitudes S, added in any order, is off by at most d*u*S; the few roundings of scaling, bias and
activation around it are 8 more. The rounding to the dtype of the output comes on top. Selections, copies, whole numbers
and dropout must be equal. Exit code 77 without PyTorch or the device; the last line is
"N passed, N failed, N skipped".

Files: frame.py (the library, problems, comparison), windows.py and layers.py (the operations).
"""
import argparse
import sys

try:
    import numpy as np
    import torch
except ImportError as missing:
    print(f"{missing}\n0 passed, 0 failed, 1 skipped")
    sys.exit(77)
sys.dont_write_bytecode = True
from frame import Case, Library, judge
import layers
import windows

OPERATIONS = windows.OPERATIONS | layers.OPERATIONS


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library"), parser.add_argument("device", nargs="?", default="cpu")
    parser.add_argument("--seed", type=int, default=1), parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--op", choices=OPERATIONS), parser.add_argument("-v", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    passed, failed = 0, 0
    try:
        library = Library(options.library, options.device)
    except RuntimeError as absent:
        print(f"{absent}\n0 passed, {int(options.device == 'cpu')} failed, {int(options.device != 'cpu')} skipped")
        return 1 if options.device == "cpu" else 77
    for number, (name, draw) in enumerate(OPERATIONS.items()):
        worst = 0
        for i in range(options.count if options.op in (None, name) else 0):
            case = Case(np.random.default_rng([options.seed, number, i]), name)
            draw(case)
            line = " ".join(case.words)
            try:
                library.run(line, case.prepare)
                wrong, error = judge(case)
            except (RuntimeError, AssertionError) as fault:
                wrong, error = str(fault) or repr(fault), 0
            if wrong:
                print(f"FAILED {options.device}: {line}\n  {wrong}")
            passed, failed, worst = passed + (not wrong), failed + bool(wrong), max(worst, error)
        if options.v and options.op in (None, name):
            print(f"{name}: largest error {worst:.2g} of its tolerance")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return int(failed > 0 or passed == 0)


if __name__ == "__main__":
    sys.exit(main())
