/* SPDX-License-Identifier: Apache-2.0
 * common/engines/plan_conv.c: the epilogue of convolutions. See plan_conv.h. */
#include "plan_conv.h"

#include <string.h>

_Static_assert(ADN_CONV_RELU == (int)ANYDNN_CONV_RELU && ADN_CONV_LEAKY_RELU == (int)ANYDNN_CONV_LEAKY_RELU &&
                   ADN_CONV_CLIPPED_RELU == (int)ANYDNN_CONV_CLIPPED_RELU &&
                   ADN_CONV_SIGMOID == (int)ANYDNN_CONV_SIGMOID && ADN_CONV_TANH == (int)ANYDNN_CONV_TANH &&
                   ADN_Y_F32 == (int)ANYDNN_F32 && ADN_Y_I8 == (int)ANYDNN_I8 && ADN_Y_U8 == (int)ANYDNN_U8 &&
                   ADN_Y_I32 == (int)ANYDNN_I32,
               "kernels know these numbers by names of their own");

void adn_conv_epilogue_of(const struct adn_problem *p, struct adn_conv_epilogue *e)
{
    const anydnn_tensor *bias = adn_tensor(p, ANYDNN_BIAS), *scales = adn_tensor(p, ANYDNN_SCALES);
    const anydnn_tensor *y = adn_tensor(p, ANYDNN_Y);
    memset(e, 0, sizeof *e);
    e->biased = !bias ? 0 : bias->dtype == ANYDNN_I32 ? 2 : 1;
    e->bias_step = bias ? bias->strides[1] : 0;
    e->scaled = scales != NULL;
    e->scale_step = scales && scales->dims[1] > 1 ? scales->strides[1] : 0;
    e->residual = adn_tensor(p, ANYDNN_Z) != NULL;
    e->activation = p->desc.conv.activation;
    e->y_dtype = y ? y->dtype : 0;
}

static double scalar_of(const struct adn_problem *p, const double *scalar, int role)
{
    const int slot = adn_slot(p, role);
    return slot >= 0 ? scalar[slot] : 0.0;
}

static adn_u64 bits_of(double value)
{
    adn_u64 bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

void adn_conv_bind(const struct adn_problem *p, const double *scalar, const struct adn_engine_plan *plan, int step,
                   void *params)
{
    struct adn_conv_epilogue *e = params;
    const double alpha = scalar_of(p, scalar, ANYDNN_ALPHA), beta = scalar_of(p, scalar, ANYDNN_BETA);
    const double alpha2 = scalar_of(p, scalar, ANYDNN_ALPHA2), coef = scalar_of(p, scalar, ANYDNN_COEF);
    (void)plan, (void)step;
    e->alpha = (float)alpha, e->beta = (float)beta, e->alpha2 = (float)alpha2, e->coef = (float)coef;
    e->wide_alpha = bits_of(alpha), e->wide_beta = bits_of(beta);
    e->wide_alpha2 = bits_of(alpha2), e->wide_coef = bits_of(coef);
    e->x_zero = (adn_i32)scalar_of(p, scalar, ANYDNN_X_ZERO);
    e->y_zero = (float)scalar_of(p, scalar, ANYDNN_Y_ZERO);
}

void adn_conv_step_roles(struct adn_step *step, const struct adn_problem *p, int out)
{
    adn_step_role(step, p, ANYDNN_BIAS);
    adn_step_role(step, p, ANYDNN_Z);
    adn_step_role(step, p, ANYDNN_SCALES);
    adn_step_role(step, p, out);
}

bool adn_conv_is_plain(const struct adn_problem *p, struct adn_refusal *why)
{
    if (adn_tensor(p, ANYDNN_Z))
        return adn_refuse(why, ANYDNN_REASON_FEATURE, ANYDNN_Z, "z", 1, 0, "does not add a residual z");
    if (p->desc.conv.activation)
        return adn_refuse(why, ANYDNN_REASON_FEATURE, 0, "activation", p->desc.conv.activation, 0, "has no activation");
    if (adn_tensor(p, ANYDNN_SCALES))
        return adn_refuse(why, ANYDNN_REASON_FEATURE, ANYDNN_SCALES, "scales", 1, 0, "does not rescale");
    return true;
}

bool adn_conv_z_lies_as(const struct adn_problem *p, int out, struct adn_refusal *why)
{
    const anydnn_tensor *z = adn_tensor(p, ANYDNN_Z), *y = adn_tensor(p, out);
    int i;
    for (i = 0; z && i < z->ndim; i++)
        if (z->dims[i] > 1 && z->strides[i] != y->strides[i])
            return adn_refuse(why, ANYDNN_REASON_LAYOUT, ANYDNN_Z, "strides", z->strides[i], y->strides[i],
                              "z does not lie as the output does: stride %d is %lld, not %lld", i,
                              (long long)z->strides[i], (long long)y->strides[i]);
    return true;
}

bool adn_conv_has_dtype(const struct adn_device *device, int dtype, struct adn_refusal *why)
{
    if (dtype != ANYDNN_F64 || device->info.has_f64) return true;
    return adn_refuse(why, ANYDNN_REASON_DEVICE, 0, "dtype", dtype, ANYDNN_F32, "this device has no f64");
}

int64_t adn_gcd(int64_t a, int64_t b)
{
    while (b) {
        const int64_t r = a % b;
        a = b, b = r;
    }
    return a;
}

int64_t adn_conv_filter_strides(const struct adn_conv_geometry *g, int64_t ws[5])
{
    int64_t origin = 0;
    int j;
    for (j = 0; j < 5; j++) ws[j] = g->ws[j];
    for (j = 0; g->flip && j < 3; j++) {
        origin += (g->filter[j] - 1) * ws[2 + j];
        ws[2 + j] = -ws[2 + j];
    }
    return origin;
}

bool adn_conv_fits(const struct adn_conv_geometry *g, struct adn_refusal *why)
{
    const int64_t limit = ADN_CONV_LIMIT;
    int j;
    for (j = 0; j < 3; j++)
        if (g->in[j] + g->pad[j] + g->pad_end[j] >= limit || g->stride[j] >= limit || g->dilation[j] >= limit ||
            g->out[j] >= limit || g->filter[j] * g->dilation[j] >= limit)
            return adn_refuse(why, ANYDNN_REASON_SIZE, 0, "coordinate", g->in[j], limit - 1,
                              "spatial axis %d is longer than %lld", j, (long long)limit - 1);
    return true;
}
