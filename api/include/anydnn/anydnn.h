/* SPDX-License-Identifier: Apache-2.0
 * anydnn/anydnn.h: the whole portable interface. Native handles: anydnn/cuda.h, anydnn/opencl.h. */
#ifndef ANYDNN_H
#define ANYDNN_H
#include <anydnn/core.h>
#include <anydnn/tensor.h>
#include <anydnn/ops.h>
#include <anydnn/plan.h>
#include <anydnn/problem.h>
#include <anydnn/typed.h>
#include <anydnn/tune.h>
#endif
