/* SPDX-License-Identifier: Apache-2.0
 * common/ops/matmul.c: rules of matrix products (formula in anydnn/ops.h). */
#include "rules.h"

static const struct adn_key_def keys[] = {
    { "trans_a", ADN_KEY_I32, offsetof(anydnn_matmul, trans_a), NULL },
    { "trans_b", ADN_KEY_I32, offsetof(anydnn_matmul, trans_b), NULL },
    ADN_KEYS_END
};

static int64_t rows(const anydnn_tensor *t, int trans) { return t->dims[t->ndim - (trans ? 1 : 2)]; }
static int64_t columns(const anydnn_tensor *t, int trans) { return t->dims[t->ndim - (trans ? 2 : 1)]; }

static anydnn_status check_bias(const struct adn_problem *p, int64_t n)
{
    const anydnn_tensor *bias = adn_tensor(p, ANYDNN_BIAS), *a = adn_tensor(p, ANYDNN_A);
    int i;
    if (!bias) return ANYDNN_OK;
    ADN_TRY(adn_need_same_dtype(p, ANYDNN_BIAS, ANYDNN_A));
    ADN_TRY(adn_need_ndim(p, ANYDNN_BIAS, a->ndim, a->ndim));
    for (i = 0; i < bias->ndim; i++) ADN_TRY(adn_need_dim(p, ANYDNN_BIAS, i, i == bias->ndim - 1 ? n : 1));
    return ANYDNN_OK;
}

static anydnn_status check(struct adn_problem *p)
{
    const anydnn_matmul *m = &p->desc.matmul;
    const anydnn_tensor *a = adn_tensor(p, ANYDNN_A), *b = adn_tensor(p, ANYDNN_B);
    int i;
    ADN_TRY(adn_need_range("trans_a", m->trans_a, 0, 1));
    ADN_TRY(adn_need_range("trans_b", m->trans_b, 0, 1));
    ADN_TRY(adn_need_ndim(p, ANYDNN_A, 2, ANYDNN_MAX_DIMS));
    ADN_TRY(adn_need_ndim(p, ANYDNN_B, a->ndim, a->ndim));
    ADN_TRY(adn_need_dtype(p, ANYDNN_A, ADN_FLOATS));
    ADN_TRY(adn_need_same_dtype(p, ANYDNN_B, ANYDNN_A));
    ADN_TRY(adn_need_dim(p, ANYDNN_B, b->ndim - (m->trans_b ? 1 : 2), columns(a, m->trans_a)));
    for (i = 0; i < a->ndim - 2; i++)
        if (a->dims[i] != 1 && b->dims[i] != 1) ADN_TRY(adn_need_dim(p, ANYDNN_B, i, a->dims[i]));
    return check_bias(p, columns(b, m->trans_b));
}

static anydnn_status infer(const struct adn_problem *p, int role, anydnn_tensor *out)
{
    const anydnn_matmul *m = &p->desc.matmul;
    const anydnn_tensor *a = adn_tensor(p, ANYDNN_A), *b = adn_tensor(p, ANYDNN_B);
    int64_t dims[ANYDNN_MAX_DIMS];
    int i;
    (void)role;
    for (i = 0; i < a->ndim - 2; i++) dims[i] = a->dims[i] == 1 ? b->dims[i] : a->dims[i];
    dims[a->ndim - 2] = rows(a, m->trans_a);
    dims[a->ndim - 1] = columns(b, m->trans_b);
    *out = anydnn_tensor_packed(a->dtype, a->ndim, dims);
    return ANYDNN_OK;
}

static void cost(const struct adn_problem *p, double *flops, double *depth)
{
    *depth = (double)columns(adn_tensor(p, ANYDNN_A), p->desc.matmul.trans_a);
    *flops = 2.0 * *depth * (double)anydnn_tensor_count(adn_tensor(p, ANYDNN_Y));
}

static const struct adn_role_def roles[] = {
    ADN_ROLE(A, ADN_IN), ADN_ROLE(B, ADN_IN), ADN_ROLE(BIAS, ADN_IN | ADN_OPT), ADN_ROLE(Y, ADN_OUT | ADN_SCALED),
    ADN_SCALAR(ALPHA, 1.0), ADN_SCALAR(BETA, 0.0), ADN_ROLES_END
};
const struct adn_op_def adn_op_matmul = { ANYDNN_OP_MATMUL, "matmul", sizeof(anydnn_matmul), roles, keys, check, infer, cost };
