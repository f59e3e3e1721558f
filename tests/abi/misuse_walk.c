/* SPDX-License-Identifier: Apache-2.0
 * tests/abi/misuse_walk.c [DEVICE]: every operation, with each thing that a call can get wrong made wrong in turn: each
 * member of each binding, of its tensor and its memory, of the operation's struct and of the preferences, through every
 * function that takes them. What must be refused is INVALID everywhere, with a message that names the role or member
 * and what is accepted; what may be legal is OK or refused in that way; extreme numbers come to nothing worse. Outputs,
 * out parameters and the caller's rows stay as they were. On the CPU, or on the device named. Single calls: misuse.c.
 */
#include "../unit/unit.h"

#include <anydnn/anydnn.h>
#include <math.h>
#include <string.h>

enum { ROWS = 24, BYTES = 4096, POISON = 0x5a };

static anydnn_context *context;
static anydnn_stream *stream;

/* One line for each operation, with all that it can bind at once. */
static const char *const lines[] = {
    "conv_forward x=2x4x5x6/f32 w=6x2x3x3/f32 bias=1x6x1x1/f32 z=2x6x5x6/f32 y=2x6x5x6/f32 pad=1,1 groups=2 "
    "activation=relu",
    "conv_forward x=2x4x5x6/i8 w=6x4x3x3/i8 bias=1x6x1x1/i32 z=2x6x3x4/f32 scales=1x6x1x1/f32 y=2x6x3x4/f32",
    "conv_backward_data dy=2x6x5x6/f32 w=6x2x3x3/f32 bias=1x4x1x1/f32 z=2x4x5x6/f32 dx=2x4x5x6/f32 pad=1,1 groups=2",
    "conv_backward_filter x=2x4x5x6/f32 dy=2x6x5x6/f32 dw=6x2x3x3/f32 pad=1,1 groups=2",
    "conv_backward_bias dy=2x6x5x6/f32 dbias=1x6x1x1/f32",
    "matmul a=2x3x4/f32 b=2x4x5/f32 bias=1x1x5/f32 y=2x3x5/f32",
    "pool_forward x=2x3x6x6/f32 y=2x3x3x3/f32 indices=2x3x3x3/i32 window=2,2 stride=2,2",
    "pool_backward dy=2x3x3x3/f32 x=2x3x6x6/f32 indices=2x3x3x3/i32 dx=2x3x6x6/f32 window=2,2 stride=2,2",
    "activation_forward x=3x7/f32 y=3x7/f32 mode=clipped_relu",
    "activation_backward dy=3x7/f32 x=3x7/f32 y=3x7/f32 dx=3x7/f32 mode=leaky_relu",
    "softmax_forward x=3x7/f32 y=3x7/f32",
    "softmax_backward y=3x7/f32 dy=3x7/f32 dx=3x7/f32",
    "cross_entropy_forward x=4x7/f32 labels=4x1/i32 loss=1x1/f32",
    "cross_entropy_backward x=4x7/f32 labels=4x1/i32 dloss=1x1/f32 dx=4x7/f32",
    "batchnorm_training x=4x5x3x3/f32 gamma=1x5x1x1/f32 shift=1x5x1x1/f32 y=4x5x3x3/f32 saved_mean=1x5x1x1/f32 "
    "saved_invstd=1x5x1x1/f32 running_mean=1x5x1x1/f32 running_var=1x5x1x1/f32",
    "batchnorm_inference x=4x5x3x3/f32 gamma=1x5x1x1/f32 shift=1x5x1x1/f32 running_mean=1x5x1x1/f32 "
    "running_var=1x5x1x1/f32 y=4x5x3x3/f32",
    "batchnorm_backward x=4x5x3x3/f32 dy=4x5x3x3/f32 gamma=1x5x1x1/f32 saved_mean=1x5x1x1/f32 saved_invstd=1x5x1x1/f32 "
    "dx=4x5x3x3/f32 dgamma=1x5x1x1/f32 dshift=1x5x1x1/f32",
    "binary a=3x4/f32 b=3x1/f32 y=3x4/f32 mode=div",
    "binary_backward dy=3x4/f32 a=3x4/f32 b=3x1/f32 da=3x4/f32 db=3x1/f32 mode=mul",
    "reduce x=3x4x5/f32 y=3x1x5/f32 axes=1 mode=norm2",
    "reduce_backward dy=3x1x5/f32 x=3x4x5/f32 dx=3x4x5/f32 axes=1 mode=max",
    "copy x=3x4/f32 y=3x4/f16",
    "fill y=3x4/f32 value=2",
    "scale y=3x4/f32 alpha=2",
    "dropout_forward x=5x7/f32 y=5x7/f32",
    "dropout_backward dy=5x7/f32 dx=5x7/f32",
    "sgd grad=5x7/f32 param=5x7/f32 moment1=5x7/f32 nesterov=1",
    "adam grad=5x7/f32 param=5x7/f32 moment1=5x7/f32 moment2=5x7/f32 decoupled=1",
};

/* A call: its struct in room for a longer one, its rows, and the memory behind them. */
struct call {
    const char *line;
    union {
        anydnn_op head;
        unsigned char bytes[256];
        int64_t align;
    } op;
    uint32_t size; /* of the struct */
    anydnn_prefs prefs;
    anydnn_tensor tensor[ROWS];
    anydnn_binding row[ROWS];
    uint32_t flags[ROWS];
    int count;
};

static const anydnn_op *op_of(const struct call *c)
{
    return &c->op.head;
}

static uint32_t flags_of(int op, int role)
{
    uint32_t flags = 0;
    int i, found;
    for (i = 0; (found = anydnn_op_role(op, i, &flags)) != 0 && found != role; i++) continue;
    return found ? flags : 0;
}

static void point_to_own(struct call *c)
{
    int i;
    for (i = 0; i < c->count; i++)
        if (c->row[i].tensor) c->row[i].tensor = &c->tensor[i];
}

static void copy(struct call *c, const struct call *from)
{
    *c = *from;
    point_to_own(c);
}

/* Without the outputs, which are derived then. */
static void copy_inputs(struct call *c, const struct call *from)
{
    int i;
    copy(c, from);
    for (i = c->count = 0; i < from->count; i++)
        if ((from->flags[i] & ANYDNN_ROLE_IN) || !from->row[i].tensor) {
            c->row[c->count] = from->row[i], c->tensor[c->count] = from->tensor[i];
            c->flags[c->count++] = from->flags[i];
        }
    point_to_own(c);
}

static void begin(struct call *c, const char *line)
{
    const anydnn_prefs prefs = ANYDNN_PREFS_INIT;
    const anydnn_binding *rows;
    anydnn_problem *problem = NULL;
    int i, count = 0;
    memset(c, 0, sizeof *c);
    CHECK_CASE(anydnn_problem_parse(line, &problem) == ANYDNN_OK, line);
    rows = anydnn_problem_bindings(problem, &count);
    c->line = line;
    c->size = anydnn_problem_op(problem)->struct_size;
    c->prefs = prefs;
    memcpy(c->op.bytes, anydnn_problem_op(problem), c->size);
    for (i = 0; i < count && i < ROWS; i++) {
        c->row[i] = rows[i];
        c->flags[i] = flags_of(c->op.head.op, rows[i].role);
        if (!rows[i].tensor) continue;
        c->tensor[i] = *rows[i].tensor;
        CHECK(anydnn_tensor_bytes(rows[i].tensor) < BYTES && anydnn_alloc(context, BYTES, &c->row[i].mem) == ANYDNN_OK);
        CHECK(anydnn_set(stream, c->row[i].mem, c->flags[i] & ANYDNN_ROLE_OUT ? POISON : 0, BYTES) == ANYDNN_OK);
    }
    c->count = count;
    point_to_own(c);
    anydnn_problem_destroy(problem);
}

static void end(struct call *c)
{
    int i;
    CHECK(anydnn_stream_sync(stream) == ANYDNN_OK);
    for (i = 0; i < c->count; i++) CHECK(anydnn_free(context, c->row[i].mem) == ANYDNN_OK);
}

/* Nothing but what was refused has gone to the outputs. */
static void outputs_are_untouched(const struct call *c)
{
    static unsigned char got[BYTES];
    int i, k, same = 1;
    for (i = 0; i < c->count; i++) {
        if (!c->row[i].tensor || !(c->flags[i] & ANYDNN_ROLE_OUT)) continue;
        CHECK(anydnn_copy_out(stream, got, c->row[i].mem, BYTES) == ANYDNN_OK &&
              anydnn_stream_sync(stream) == ANYDNN_OK);
        for (k = 0; k < BYTES; k++) same = same && got[k] == POISON;
    }
    CHECK_CASE(same, c->line);
}

/* ---- verdicts ---- */

/* `what` is said where a check fails; `named` must stand in the message (NULL: anything). */
static void judge(const struct call *c, const char *function, anydnn_status got, int may_pass, const char *named,
                  const char *what)
{
    const char *message = anydnn_message();
    const int passed = got == ANYDNN_OK && may_pass;
    const int refused = got == ANYDNN_INVALID && strstr(message, "accepted") && (!named || strstr(message, named));
    if (passed || refused) {
        unit_passed++;
        return;
    }
    unit_failed++;
    printf("%s: %s of %s: %s: %s\n", function, what, c->line, anydnn_status_name(got), got ? message : "");
}

/* Functions that look at the call without a device. */
static void try_descriptions(const struct call *c, int may_pass, const char *named, const char *what)
{
    anydnn_problem *problem = (anydnn_problem *)&unit_passed;
    anydnn_tensor made;
    uint32_t flags;
    int i, role;
    anydnn_status status = anydnn_problem_create(op_of(c), &c->prefs, c->row, c->count, &problem);
    judge(c, "anydnn_problem_create", status, may_pass, named, what);
    if (status == ANYDNN_OK)
        anydnn_problem_destroy(problem);
    else
        CHECK(problem == (anydnn_problem *)&unit_passed);
    for (i = 0; (role = anydnn_op_role(c->op.head.op, i, &flags)) != 0; i++) {
        if (!(flags & ANYDNN_ROLE_OUT)) continue;
        memset(&made, POISON, sizeof made);
        status = anydnn_output(op_of(c), c->row, c->count, role, &made);
        judge(c, "anydnn_output", status, may_pass, named, what);
        CHECK(status == ANYDNN_OK || made.dtype == 0x5a5a5a5a);
    }
}

/* The same with the outputs derived. */
static void try_derived(const struct call *from, const char *what)
{
    struct call c;
    copy_inputs(&c, from);
    try_descriptions(&c, 1, NULL, what);
}

/* Functions of a context: must be refused. */
static void try_device(const struct call *c, const char *named, const char *what)
{
    anydnn_plan *plan = (anydnn_plan *)&unit_passed;
    anydnn_verdict rows[1];
    int count = -7;
    rows[0].status = -7;
    judge(c, "anydnn_plan_create", anydnn_plan_create(context, op_of(c), &c->prefs, c->row, c->count, &plan), 0, named,
          what);
    judge(c, "anydnn_run", anydnn_run(stream, op_of(c), &c->prefs, c->row, c->count), 0, named, what);
    judge(c, "anydnn_explain", anydnn_explain(context, op_of(c), &c->prefs, c->row, c->count, rows, 1, &count), 0,
          named, what);
    judge(c, "anydnn_candidates", anydnn_candidates(context, op_of(c), &c->prefs, c->row, c->count, rows, 1, &count), 0,
          named, what);
    judge(c, "anydnn_find", anydnn_find(stream, op_of(c), &c->prefs, c->row, c->count, 1, rows, 1, &count), 0, named,
          what);
    CHECK(plan == (anydnn_plan *)&unit_passed && count == -7 && rows[0].status == -7);
}

static void must_refuse(const struct call *c, const char *named, const char *what)
{
    try_descriptions(c, 0, named, what);
    try_device(c, named, what);
}

/* ---- tensors and rows ---- */

static const char *const tensor_faults[] = { "dtype 0",      "dtype 99",    "dtype -1",
                                             "ndim 0",       "ndim 9",      "ndim -1",
                                             "alignment -1", "alignment 3", "alignment 8192",
                                             "reserved0",    "reserved[0]", "reserved[1]",
                                             "tensor NULL",  "index 1",     "reserved of the row",
                                             "bound twice" };
enum { TENSOR_FAULTS = sizeof tensor_faults / sizeof tensor_faults[0] };

static void spoil(struct call *c, int i, int fault)
{
    anydnn_tensor *t = &c->tensor[i];
    switch (fault) {
    case 0:
        t->dtype = 0;
        break;
    case 1:
        t->dtype = 99;
        break;
    case 2:
        t->dtype = -1;
        break;
    case 3:
        t->ndim = 0;
        break;
    case 4:
        t->ndim = 9;
        break;
    case 5:
        t->ndim = -1;
        break;
    case 6:
        t->alignment = -1;
        break;
    case 7:
        t->alignment = 3;
        break;
    case 8:
        t->alignment = 8192;
        break;
    case 9:
        t->reserved0 = 1;
        break;
    case 10:
        t->reserved[0] = 1;
        break;
    case 11:
        t->reserved[1] = 1;
        break;
    case 12:
        c->row[i].tensor = NULL;
        break;
    case 13:
        c->row[i].index = 1;
        break;
    case 14:
        c->row[i].reserved = 1;
        break;
    default:
        c->row[c->count] = c->row[i], c->flags[c->count++] = 0;
        break;
    }
}

static void wrong_axes(const struct call *from, int i)
{
    static const int64_t bad[] = { -1, INT64_MIN };
    const char *name = anydnn_role_name(from->row[i].role);
    struct call c;
    int axis, k;
    copy(&c, from);
    for (axis = 0; axis < from->tensor[i].ndim; axis++) {
        for (k = 0; k < 2; k++) {
            c.tensor[i] = from->tensor[i], c.tensor[i].dims[axis] = bad[k];
            must_refuse(&c, name, "negative dim");
            c.tensor[i] = from->tensor[i], c.tensor[i].strides[axis] = bad[k];
            must_refuse(&c, name, "negative stride");
        }
        c.tensor[i] = from->tensor[i], c.tensor[i].dims[axis] = INT64_MAX;
        must_refuse(&c, NULL, "dim of 2^63-1"); /* of a role it must match, or overflow of its own */
        if (from->tensor[i].dims[axis] < 2) continue;
        c.tensor[i] = from->tensor[i], c.tensor[i].strides[axis] = INT64_MAX;
        must_refuse(&c, name, "stride of 2^63-1");
        c.tensor[i].strides[axis] = 0;
        if (from->flags[i] & ANYDNN_ROLE_OUT) must_refuse(&c, name, "output with stride 0");
    }
}

/* Neighbouring ranks, dims and dtypes: legal for some operations; refused in words for the others. */
static void other_shapes(const struct call *from, int i)
{
    struct call c;
    int k;
    copy(&c, from);
    for (k = -2; k <= 2; k++) {
        c.tensor[i] = from->tensor[i], c.tensor[i].ndim += k;
        try_descriptions(&c, 1, NULL, "another rank");
    }
    for (k = 0; k < from->tensor[i].ndim; k++) {
        int64_t bits;
        c.tensor[i] = from->tensor[i], c.tensor[i].dims[k]++;
        try_descriptions(&c, 1, NULL, "another dim");
        for (bits = 0; bits <= 62; bits++) { /* huge, and empty because of its neighbour */
            c.tensor[i].dims[k] = INT64_MAX >> bits;
            try_descriptions(&c, 1, NULL, "a huge dim");
            try_derived(&c, "a huge dim, outputs derived");
            c.tensor[i].dims[(k + 1) % from->tensor[i].ndim] = 0;
            try_descriptions(&c, 1, NULL, "a huge dim of an empty tensor");
            try_derived(&c, "a huge dim of an empty tensor, outputs derived");
            c.tensor[i] = from->tensor[i];
        }
    }
    for (k = ANYDNN_F32; k <= ANYDNN_I64; k++) {
        c.tensor[i] = from->tensor[i], c.tensor[i].dtype = k;
        try_descriptions(&c, 1, NULL, "another dtype");
    }
}

static void missing_row(const struct call *from, int i)
{
    struct call c;
    int k;
    copy(&c, from);
    if (from->flags[i] & ANYDNN_ROLE_OPTIONAL) return;
    for (k = i; k + 1 < c.count; k++) {
        c.row[k] = c.row[k + 1], c.tensor[k] = c.tensor[k + 1], c.flags[k] = c.flags[k + 1];
    }
    c.count--;
    point_to_own(&c);
    try_device(&c, anydnn_role_name(from->row[i].role), "missing");
    try_descriptions(&c, (from->flags[i] & ANYDNN_ROLE_IN) == 0, anydnn_role_name(from->row[i].role), "missing");
}

/* Every set of rows: some lack what is needed, some leave an output without a shape. */
static void walk_subsets(const struct call *from)
{
    uint32_t set;
    int i;
    for (set = 0; set < 1u << from->count; set++) {
        struct call c;
        copy(&c, from);
        for (i = c.count = 0; i < from->count; i++)
            if (set >> i & 1u) {
                c.row[c.count] = from->row[i], c.tensor[c.count] = from->tensor[i];
                c.flags[c.count++] = from->flags[i];
            }
        point_to_own(&c);
        try_descriptions(&c, 1, NULL, "some of the rows");
    }
}

static void walk_rows(const struct call *from)
{
    static const int roles[] = { 0, -1, 99, 1000, INT32_MAX, INT32_MIN };
    struct call c;
    int i, k;
    for (i = 0; i < from->count; i++) {
        if (!from->row[i].tensor) continue;
        for (k = 0; k < TENSOR_FAULTS; k++) {
            copy(&c, from);
            spoil(&c, i, k);
            must_refuse(&c, anydnn_role_name(from->row[i].role), tensor_faults[k]);
        }
        wrong_axes(from, i);
        other_shapes(from, i);
        missing_row(from, i);
    }
    copy(&c, from);
    for (k = 0; k < 6; k++) {
        c.row[c.count] = anydnn_bind_value(roles[k], 1), c.flags[c.count++] = 0;
        must_refuse(&c, "role", "a role that is not there");
        c.count--;
    }
}

/* ---- scalars ---- */

static void walk_scalars(const struct call *from)
{
    static const double values[] = { NAN, INFINITY, -INFINITY, -1, 2, 0.5, 1e300, -1e300, 9007199254740992.0 };
    struct call c;
    uint32_t flags;
    int i, k, role, kept = 0;
    copy(&c, from);
    for (i = 0; i < c.count; i++) /* scalars of the line make room */
        if (c.row[i].tensor) kept = i + 1;
    c.count = kept;
    for (i = 0; (role = anydnn_op_role(c.op.head.op, i, &flags)) != 0; i++) {
        if (!(flags & ANYDNN_ROLE_SCALAR)) continue;
        c.count = kept + 1, c.flags[kept] = flags;
        for (k = 0; k < 9; k++) {
            c.row[kept] = anydnn_bind_value(role, values[k]);
            try_descriptions(&c, 1, anydnn_role_name(role), "a scalar's value");
        }
        c.row[kept] = anydnn_bind_value(role, 0.5), c.row[kept].tensor = &c.tensor[0];
        must_refuse(&c, anydnn_role_name(role), "a scalar with a tensor");
        c.row[kept].tensor = NULL, c.row[kept].mem.kind = ANYDNN_MEM_HOST;
        if (!(flags & ANYDNN_ROLE_DEVICE)) must_refuse(&c, anydnn_role_name(role), "a scalar in device memory");
    }
}

/* ---- structs ---- */

static void walk_struct(const struct call *from)
{
    static const int32_t words[] = { -1, 99, INT32_MIN, INT32_MAX };
    static const int64_t longs[] = { -1, INT64_MIN, INT64_MAX, (int64_t)1 << 40, INT64_MAX / 4, INT64_MAX / 4 + 1 };
    struct call c, inputs;
    uint32_t at;
    int k;
    copy(&c, from);
    copy_inputs(&inputs, from);
    for (at = sizeof(anydnn_op); at < c.size; at += 4)
        for (k = 0; k < 10; k++) {
            if (k >= 4 && (at % 8 || at + 8 > c.size)) break;
            memcpy(c.op.bytes, from->op.bytes, c.size);
            if (k < 4)
                memcpy(c.op.bytes + at, &words[k], 4);
            else
                memcpy(c.op.bytes + at, &longs[k - 4], 8);
            memcpy(inputs.op.bytes, c.op.bytes, c.size);
            try_descriptions(&c, 1, NULL, "a struct member");
            try_descriptions(&inputs, 1, NULL, "a struct member, outputs derived");
        }
}

static void walk_sizes(const struct call *from)
{
    static const uint32_t sizes[] = { 0, 1, 4, 7, 9, 13, 65536, UINT32_MAX };
    static const uint32_t prefs_sizes[] = { 0, 8, 15, 17, 28, 65536, UINT32_MAX };
    struct call c;
    anydnn_plan *plan = (anydnn_plan *)&unit_passed;
    int k;
    copy(&c, from);
    for (k = 0; k < 8; k++) {
        c.op.head.struct_size = sizes[k];
        must_refuse(&c, "struct_size", "struct_size");
    }
    c.op.head.struct_size = c.size + 8;
    try_descriptions(&c, 1, NULL, "a longer struct");
    c.op.bytes[c.size + 3] = 1;
    CHECK_CASE(anydnn_plan_create(context, op_of(&c), NULL, c.row, c.count, &plan) == ANYDNN_UNSUPPORTED, c.line);
    CHECK_CASE(plan == (anydnn_plan *)&unit_passed && strstr(anydnn_message(), "struct_size"), c.line);
    copy(&c, from);
    for (k = 0; k < 7; k++) {
        c.prefs.struct_size = prefs_sizes[k];
        try_device(&c, "struct_size", "struct_size of prefs");
    }
    c.prefs = from->prefs;
    for (k = -1; k <= 4; k += 5) {
        c.prefs.math = k, try_device(&c, "prefs.math", "math"), c.prefs.math = 0;
        c.prefs.deterministic = k, try_device(&c, "prefs.deterministic", "deterministic"), c.prefs.deterministic = 0;
        c.prefs.batch_invariant = k, try_device(&c, "prefs.batch_invariant", "batch_invariant"),
        c.prefs.batch_invariant = 0;
    }
    c.prefs.engine = "an engine whose name is far longer than the sixty-three characters that an id may have";
    try_device(&c, "prefs.engine", "a long engine");
    copy(&c, from);
    for (k = 0; k < 4; k++) {
        static const int ops[] = { 0, -1, ANYDNN_OP_ADAM + 1, INT32_MAX };
        c.op.head.op = ops[k];
        must_refuse(&c, "op.op", "an unknown operation");
    }
}

/* ---- runs ---- */

static void refuse_run(const struct call *c, const anydnn_plan *plan, const char *named, const char *what)
{
    judge(c, "anydnn_plan_run", anydnn_plan_run(plan, stream, c->row, c->count, NULL), 0, named, what);
}

static void wrong_memory(const struct call *from, const anydnn_plan *plan, int i)
{
    static const int kinds[] = {
        -1, ANYDNN_MEM_NONE, ANYDNN_MEM_HOST, ANYDNN_MEM_CUDA, ANYDNN_MEM_OPENCL, 4, INT32_MAX
    };
    const char *name = anydnn_role_name(from->row[i].role);
    struct call c;
    anydnn_mem *mem = &c.row[i].mem;
    int k;
    copy(&c, from);
    for (k = 0; k < 7; k++) {
        mem->kind = kinds[k];
        if (kinds[k] != from->row[i].mem.kind) refuse_run(&c, plan, name, "memory kind");
    }
    *mem = from->row[i].mem, mem->base = NULL, refuse_run(&c, plan, name, "base NULL");
    *mem = from->row[i].mem, mem->reserved = 1, refuse_run(&c, plan, name, "reserved of the memory");
    *mem = from->row[i].mem, mem->size = 3, refuse_run(&c, plan, name, "a small memory");
    *mem = from->row[i].mem, mem->offset = BYTES, refuse_run(&c, plan, name, "an offset behind the memory");
    mem->offset = UINT64_MAX, refuse_run(&c, plan, name, "an offset of 2^64-1");
    mem->offset = (uint64_t)1 << 63, refuse_run(&c, plan, name, "an offset of 2^63");
    mem->offset = 1;
    if (anydnn_dtype_size(c.tensor[i].dtype) > 1) refuse_run(&c, plan, name, "an odd offset");
    for (k = 0; k < from->count; k++) { /* an output in another tensor's place, but for one element */
        if (k == i || !from->row[k].tensor || !(from->flags[i] & ANYDNN_ROLE_OUT)) continue;
        *mem = from->row[k].mem, mem->offset = 8, mem->size = 0;
        if (anydnn_tensor_bytes(&from->tensor[k]) > 8) refuse_run(&c, plan, "overlaps", "an overlap");
    }
}

static void walk_runs(const struct call *from)
{
    anydnn_plan *plan = NULL;
    struct call c;
    int i, k;
    CHECK_CASE(anydnn_plan_create(context, op_of(from), NULL, from->row, from->count, &plan) == ANYDNN_OK, from->line);
    if (!plan) {
        printf("%s\n", anydnn_message());
        return;
    }
    for (i = 0; i < from->count; i++) {
        const char *name = anydnn_role_name(from->row[i].role);
        if (!from->row[i].tensor) continue;
        for (k = 0; k < TENSOR_FAULTS; k++) {
            copy(&c, from);
            spoil(&c, i, k);
            if (k < 6 || k > 12) refuse_run(&c, plan, name, tensor_faults[k]); /* 6 to 12 are not part of a run */
        }
        copy(&c, from);
        c.row[i] = anydnn_bind_value(1000, 0);
        refuse_run(&c, plan, "1000", "a role that is not there");
        copy(&c, from);
        c.count--, c.row[i] = c.row[c.count], c.tensor[i] = c.tensor[c.count];
        point_to_own(&c);
        if (i < c.count || from->row[c.count].tensor) refuse_run(&c, plan, NULL, "missing");
        wrong_memory(from, plan, i);
    }
    anydnn_plan_release(plan);
}

int main(int argc, char **argv)
{
    const char *device = argc > 1 ? argv[1] : "cpu";
    const anydnn_status opened = anydnn_open(device, NULL, &context);
    size_t i;
    if (opened == ANYDNN_UNSUPPORTED) {
        printf("skipped: no %s here: %s\n", device, anydnn_message());
        return 77;
    }
    if (opened || anydnn_stream_create(context, 1 << 20, &stream)) {
        printf("cannot open %s: %s\n", device, anydnn_message());
        return 1;
    }
    for (i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct call c;
        begin(&c, lines[i]);
        walk_rows(&c);
        walk_subsets(&c);
        walk_scalars(&c);
        walk_struct(&c);
        walk_sizes(&c);
        walk_runs(&c);
        outputs_are_untouched(&c);
        end(&c);
    }
    anydnn_stream_destroy(stream);
    anydnn_close(context);
    return unit_end();
}
