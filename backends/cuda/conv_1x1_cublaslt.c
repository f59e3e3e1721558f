/* SPDX-License-Identifier: Apache-2.0
 * backends/cuda/conv_1x1_cublaslt.c: convolutions of one tap (conv_as_matmul.h) by matmul_cublaslt and its fast twin:
 * this file writes the problem as a product and passes it on; limits are those of matmul_cublaslt.c. Rows and columns
 * are never exchanged, so that the operation alone says which tensors are a, b and y. */
#include "common/engines/conv_as_matmul.h"
#include "common/engines/plan_conv.h"
#include "cuda.h"

/* Tensors in the places of a, b and y. */
static const enum adn_conv_tensor *factors_of(int op)
{
    static const enum adn_conv_tensor forward[3] = { ADN_CONV_W, ADN_CONV_X, ADN_CONV_Y };
    static const enum adn_conv_tensor data[3] = { ADN_CONV_W, ADN_CONV_Y, ADN_CONV_X };
    static const enum adn_conv_tensor filter[3] = { ADN_CONV_Y, ADN_CONV_X, ADN_CONV_W };
    return op == ANYDNN_OP_CONV_FORWARD ? forward : op == ANYDNN_OP_CONV_BACKWARD_DATA ? data : filter;
}

static const int matrices[3] = { ANYDNN_A, ANYDNN_B, ANYDNN_Y };

/* A refusal names the convolution's tensor. */
static void rename_role(int op, struct adn_refusal *why)
{
    int i;
    for (i = 0; why && i < 3; i++)
        if (why->role == matrices[i]) {
            why->role = adn_conv_tensor_role(op, factors_of(op)[i]);
            return;
        }
}

static bool as_matmul(const struct adn_problem *p, struct adn_conv_matmul *product, struct adn_refusal *why)
{
    struct adn_conv_pointwise c;
    return adn_conv_is_product(p, why) && adn_conv_pointwise_of(p, &c, why) &&
           adn_conv_as_matmul(p, &c, false, product, why);
}

static bool plan_by(const struct adn_engine *engine, const struct adn_problem *p, const struct adn_device *device,
                    const char *params, struct adn_engine_plan *plan, struct adn_refusal *why)
{
    struct adn_conv_matmul product;
    if (!as_matmul(p, &product, why)) return false;
    if (engine->plan(&product.problem, device, params, plan, why)) return true;
    rename_role(p->def->op, why);
    return false;
}

static bool plan_strict(const struct adn_problem *p, const struct adn_device *device, const char *params,
                        struct adn_engine_plan *plan, struct adn_refusal *why)
{
    return plan_by(&adn_cuda_matmul_cublaslt, p, device, params, plan, why);
}

static bool plan_fast(const struct adn_problem *p, const struct adn_device *device, const char *params,
                      struct adn_engine_plan *plan, struct adn_refusal *why)
{
    return plan_by(&adn_cuda_matmul_cublaslt_fast, p, device, params, plan, why);
}

/* The steps that matmul_cublaslt prepares for alpha 0 get the convolution's slots. */
static anydnn_status prepare(anydnn_plan *plan)
{
    const struct adn_problem convolution = plan->problem;
    struct adn_conv_matmul product;
    struct adn_conv_places places;
    anydnn_status status;
    if (!as_matmul(&convolution, &product, NULL))
        return adn_fail(ANYDNN_UNSUPPORTED, "the convolution is no matrix product");
    plan->problem = product.problem;
    status = adn_cuda_matmul_cublaslt.prepare(plan);
    plan->problem = convolution;
    ADN_TRY(status);
    adn_conv_places_of(&convolution, &places);
    adn_conv_rename(&product, &places, 0, &plan->body);
    return ANYDNN_OK;
}

/* What matmul_cublaslt's run looks at, its arguments by the slots of MATMUL. */
static anydnn_status run(const anydnn_plan *plan, anydnn_stream *stream, const struct adn_arguments *arguments)
{
    static const int scalars[2] = { ANYDNN_ALPHA, ANYDNN_BETA };
    const struct adn_problem *p = &plan->problem;
    anydnn_plan product = { NULL };
    struct adn_arguments given = { .workspace = arguments->workspace };
    int i;
    if ((float)arguments->scalar[adn_slot(p, ANYDNN_ALPHA)] == 0.0f) return adn_steps_run(plan, stream, arguments);
    product.context = plan->context;
    product.engine = &adn_cuda_matmul_cublaslt;
    product.problem.def = adn_op_def(ANYDNN_OP_MATMUL);
    while (product.problem.def->roles[product.problem.slots].role) product.problem.slots++;
    product.body.workspace = plan->body.workspace;
    product.body.own = plan->body.own;
    for (i = 0; i < 3; i++)
        given.place[adn_slot(&product.problem, matrices[i])] =
            arguments->place[adn_slot(p, adn_conv_tensor_role(p->def->op, factors_of(p->def->op)[i]))];
    for (i = 0; i < 2; i++)
        given.scalar[adn_slot(&product.problem, scalars[i])] = arguments->scalar[adn_slot(p, scalars[i])];
    return adn_cuda_matmul_cublaslt.run(&product, stream, &given);
}

static void bind(const struct adn_problem *p, const double *scalar, const struct adn_engine_plan *plan, int step,
                 void *params)
{
    (void)plan, (void)step;
    adn_conv_tile_bind(p, scalar, params);
}

static void discard(anydnn_plan *plan)
{
    adn_cuda_matmul_cublaslt.discard(plan);
}

const struct adn_engine adn_cuda_conv_1x1_cublaslt = {
    .name = "conv_1x1_cublaslt",
    .ops = ADN_CONVOLUTIONS,
    .traits = ANYDNN_TRAIT_LIBRARY | ANYDNN_TRAIT_DETERMINISTIC,
    .revision = 1,
    .plan = plan_strict,
    .bind = bind,
    .prepare = prepare,
    .run = run,
    .discard = discard,
};

const struct adn_engine adn_cuda_conv_1x1_cublaslt_fast = {
    .name = "conv_1x1_cublaslt_fast",
    .ops = ADN_CONVOLUTIONS,
    .traits = ANYDNN_TRAIT_LIBRARY | ANYDNN_TRAIT_DETERMINISTIC | ANYDNN_TRAIT_REDUCED_MATH,
    .revision = 1,
    .plan = plan_fast,
    .bind = bind,
    .prepare = prepare,
    .run = run,
    .discard = discard,
};
