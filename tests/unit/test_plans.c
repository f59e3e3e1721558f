/* SPDX-License-Identifier: Apache-2.0
 * tests/unit/test_plans.c: the plans of the shared GPU engines without a device: every line of tests/cases is planned
 * by every engine for made-up devices, and each plan must keep the contract of common/backend.h: known kernels, launch
 * limits, parameter sizes, memory of the problem, pure planning; each refusal must say why; and for every problem some
 * engine must do without workspace. Also the budget of variants, which bounds the build's time. */
#include "common/backend.h"
#include "common/text.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#if !defined(ADN_WITH_CUDA) && !defined(ADN_WITH_OPENCL)
int main(void)
{
    printf("no GPU backend in this build\n");
    return 77;
}
#else

/* Rows that one stem may have, and all stems together: a row costs about 2 CPU-seconds and 50 KB for five targets. */
enum { STEM_BUDGET = 48, BUDGET = 350 };

static const struct adn_backend cuda = { .id = ANYDNN_BACKEND_CUDA, .name = "cuda" };
static const struct adn_backend opencl = { .id = ANYDNN_BACKEND_OPENCL, .name = "opencl" };

static struct adn_device device_of(const struct adn_backend *backend, bool cpu, int units)
{
    struct adn_device device;
    memset(&device, 0, sizeof device);
    device.backend = backend;
    device.info.backend = backend->id;
    device.info.compute_units = units;
    device.info.max_block_threads = 1024;
    device.info.local_memory_bytes = 48 << 10;
    device.info.memory_bytes = (int64_t)16 << 30;
    device.info.max_alloc_bytes = (int64_t)4 << 30;
    device.info.capability = backend == &cuda ? 90 : 0;
    device.info.is_cpu = cpu;
    device.info.has_f64 = 1;
    return device;
}

/* Engines without kernels of their own plan with those of others. */
static bool is_known(const struct adn_variant *variant)
{
    int i;
    for (i = 0; adn_shared_engines[i]; i++) {
        const struct adn_engine *engine = adn_shared_engines[i];
        if (variant >= engine->variants && variant < engine->variants + engine->variant_count) return true;
    }
    return false;
}

static bool memory_is_sound(const struct adn_problem *p, const struct adn_engine_plan *plan,
                            const struct adn_step *step)
{
    int i;
    if (step->memories < 1 || step->memories > ADN_MAX_MEMORIES) return false;
    for (i = 0; i < step->memories; i++) {
        const int source = step->memory[i].source;
        if (source == ADN_FROM_NULL) continue;
        if (source == ADN_FROM_WORKSPACE) {
            if (step->memory[i].offset >= plan->workspace || step->memory[i].offset % 256) return false;
        } else if (source < 0 || source >= p->slots || !p->operand[source].present) {
            return false;
        }
    }
    return true;
}

static bool step_is_sound(const struct adn_problem *p, const struct adn_engine_plan *plan, const struct adn_step *step)
{
    return step->variant && is_known(step->variant) && (int64_t)step->grid[0] * step->variant->block <= INT32_MAX &&
           step->grid[1] <= 65535 && step->grid[2] <= 65535 && step->params_size > 0 &&
           step->params_size <= ADN_MAX_PARAMS && step->params_size % 8 == 0 && memory_is_sound(p, plan, step);
}

/* Plans twice over different garbage: the answers must be equal where they count. */
static bool is_pure(const struct adn_engine *engine, const struct adn_problem *p, const struct adn_device *device,
                    const struct adn_engine_plan *plan)
{
    static struct adn_engine_plan again;
    int i;
    memset(&again, 0, sizeof again);
    if (!engine->plan(p, device, plan->params[0] ? plan->params : NULL, &again, NULL)) return false;
    if (again.steps != plan->steps || again.workspace != plan->workspace || again.cost_ns != plan->cost_ns)
        return false;
    for (i = 0; i < plan->steps; i++)
        if (again.step[i].variant != plan->step[i].variant || again.step[i].params_size != plan->step[i].params_size ||
            memcmp(again.step[i].grid, plan->step[i].grid, sizeof plan->step[i].grid) != 0 ||
            memcmp(again.step[i].params.bytes, plan->step[i].params.bytes, plan->step[i].params_size) != 0)
            return false;
    return true;
}

/* True when the engine takes the problem with no more than the limit of workspace. */
static bool try_engine(const struct adn_engine *engine, const struct adn_problem *p, const struct adn_device *device,
                       const char *line)
{
    static struct adn_engine_plan plan;
    struct adn_refusal why;
    int i;
    memset(&plan, 0, sizeof plan);
    memset(&why, 0, sizeof why);
    if (!engine->plan(p, device, NULL, &plan, &why)) {
        CHECK_CASE(why.reason > 0 && why.text[0] && why.argument[0], line);
        return false;
    }
    CHECK_CASE(plan.steps >= 0 && plan.steps <= ADN_MAX_STEPS && isfinite(plan.cost_ns), line);
    CHECK_CASE(plan.cost_ns > 0 || plan.steps == 0, line); /* nothing to do costs nothing */
    for (i = 0; i < plan.steps; i++) CHECK_CASE(step_is_sound(p, &plan, &plan.step[i]), line);
    CHECK_CASE(is_pure(engine, p, device, &plan), line);
    return plan.workspace <= p->workspace_limit;
}

static bool is_float(const struct adn_problem *p)
{
    int i;
    for (i = 0; i < p->slots; i++)
        if (p->operand[i].present && !(p->def->roles[i].flags & ANYDNN_ROLE_SCALAR) &&
            p->operand[i].t.dtype == ANYDNN_F64)
            return false;
    return true;
}

static void try_line(const char *line)
{
    struct adn_device devices[3];
    static struct adn_problem p;
    anydnn_open_options options = ANYDNN_OPEN_OPTIONS_INIT;
    int d, i;
    if (adn_text_parse(line, &p) != ANYDNN_OK || p.engine[0]) return;
    options.math = ANYDNN_MATH_STRICT;
    adn_problem_settle(&p, &options);
    devices[0] = device_of(&cuda, false, 132), devices[1] = device_of(&opencl, false, 8),
    devices[2] = device_of(&opencl, true, 4);
    for (d = 0; d < 3; d++) {
        bool without_workspace = false;
        for (i = 0; adn_shared_engines[i]; i++) {
            const struct adn_engine *engine = adn_shared_engines[i];
            if (!(engine->ops & ADN_OP_BIT(p.def->op))) continue;
            p.workspace_limit = UINT64_MAX;
            try_engine(engine, &p, &devices[d], line);
            p.workspace_limit = 0;
            without_workspace = try_engine(engine, &p, &devices[d], line) || without_workspace;
        }
        CHECK_CASE(without_workspace || !is_float(&p), line);
    }
}

/* Lines of a case file, less prefix words and those that must be refused. */
static int try_file(const char *path)
{
    char text[4096];
    int lines = 0;
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    while (fgets(text, sizeof text, file)) {
        char *line = text + strspn(text, " \t");
        if (strncmp(line, "!invalid", 8) == 0 || line[0] == '#' || line[0] == '\n') continue;
        while (line[0] == '!') line += strcspn(line, " \t\n"), line += strspn(line, " \t");
        try_line(line);
        lines++;
    }
    fclose(file);
    return lines;
}

static void all_files(void)
{
    char path[4096];
    int op;
    for (op = 1; anydnn_op_name(op); op++) {
        const char *here = __FILE__, *end = strstr(here, "unit");
        snprintf(path, sizeof path, "%.*scases/%s.cases", (int)(end ? end - here : 0), here, anydnn_op_name(op));
        CHECK_CASE(try_file(path) > 0, path);
    }
}

/* Extents, strides and pads beyond 31 and 32 bits, which case files cannot run. */
static void giants(void)
{
    static const char *const lines[] = {
        "conv_forward x=1x1x2147483653/f16 w=1x1x3/f16",
        "conv_forward x=3000000000x1x1x1/f16 w=1x1x1x1/f16",
        "conv_forward x=1x1x8/f32 w=1x1x2/f32 stride=5000000000",
        "conv_forward x=1x1x8/f32 w=1x1x1/f32 dilation=5000000000",
        "conv_forward x=1x1x8/f32 w=1x1x1/f32 pad=5000000000",
        "conv_forward x=1x1x1x1/f16 w=3000000000x1x1x1/f16",
        "conv_forward x=1x2x3000000000/u8 w=2x2x3/i8 y=1x2x2999999998/i32",
        "conv_backward_filter x=1x1x2147483653/f16 dy=1x1x2147483651/f16 dw=1x1x3/f16",
        "conv_backward_data dy=1x1x2147483651/f16 w=1x1x3/f16 dx=1x1x2147483653/f16",
        "conv_backward_bias dy=1x3x2147483653/f16",
        "pool_forward x=1x1x8/f32 window=2 stride=5000000000 mode=max",
        "pool_forward x=1x1x8/f32 window=1 dilation=2147483647 mode=max",
        "pool_forward x=3000000000x1x4/f16 window=2 stride=2 mode=max",
        "pool_forward x=1x3000000000x4/f16 window=2 stride=2 mode=avg_include",
        "pool_backward dy=1x1x1/f32 dx=1x1x8/f32 window=2 stride=5000000000 mode=avg_exclude",
        "softmax_forward x=3000000000x2/f16",
        "softmax_backward y=2x3000000000/f16 dy=2x3000000000/f16",
        "cross_entropy_forward x=3000000000x2/f16 labels=3000000000x1/i32",
        "cross_entropy_backward x=2x3000000000/f16 labels=2x1/i64 reduction=mean",
        "matmul a=3000000000x1/f16 b=1x1/f16",
        "matmul a=1x3000000000/f16 b=3000000000x1/f16",
        "matmul a=3000000000x1x1/f16 b=3000000000x1x1/f16",
        "batchnorm_training x=3000000000x1x1/f16 gamma=1x1x1/f32 shift=1x1x1/f32",
        "batchnorm_training x=1x3000000000x2/f16 gamma=1x3000000000x1/f32 shift=1x3000000000x1/f32",
        "reduce x=3000000000x2/f16 mode=sum axes=0",
        "reduce_backward dy=3000000000x1/f16 x=3000000000x2/f16 dx=3000000000x2/f16 mode=max axes=1",
        "binary_backward a=3000000000x2/f16 b=1x2/f16 dy=3000000000x2/f16 da=3000000000x2/f16 db=1x2/f16 mode=mul",
        "copy x=3000000000x2:s2,1/f16 y=3000000000x2:s1,3000000000/f16",
        "fill y=5000000000/f64",
        "dropout_forward x=5000000000/f16",
        "adam param=5000000000/f16 grad=5000000000/f16 moment1=5000000000/f32 moment2=5000000000/f32",
    };
    static struct adn_problem p;
    size_t i;
    for (i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        CHECK_CASE(adn_text_parse(lines[i], &p) == ANYDNN_OK, lines[i]);
        try_line(lines[i]);
    }
}

static void budgets(void)
{
    const char *stems[64] = { NULL };
    int rows[64] = { 0 }, count = 0, all = 0, i, j, k;
    for (i = 0; adn_shared_engines[i]; i++) {
        const struct adn_engine *engine = adn_shared_engines[i];
        CHECK_CASE(engine->name && engine->ops && engine->plan && engine->bind && !engine->run, engine->name);
        for (j = 0; j < i; j++) CHECK_CASE(strcmp(engine->name, adn_shared_engines[j]->name) != 0, engine->name);
        for (j = 0; j < engine->variant_count; j++) {
            const struct adn_variant *v = &engine->variants[j];
            for (k = 0; k < count && strcmp(stems[k], v->stem) != 0; k++) continue;
            if (k == count) stems[count++] = v->stem;
            rows[k]++;
            all++;
            CHECK_CASE(v->block >= 1 && v->block <= 1024 && v->kernel[0], engine->name);
        }
    }
    for (k = 0; k < count; k++) CHECK_CASE(rows[k] <= STEM_BUDGET, stems[k]);
    CHECK(all <= BUDGET);
    printf("%d variants in %d stems\n", all, count);
}

int main(void)
{
    budgets();
    giants();
    all_files();
    return unit_end();
}
#endif
