/* SPDX-License-Identifier: Apache-2.0
 * common/ops/geometry.c: geometry that CPU code and kernel plans share: convolution in three dimensions, and walks over
 * several tensors at once. */
#include "rules.h"

/* dims and strides of N,C,D,H,W from a tensor of 1 to 3 spatial dims. */
static void spatial_dims(const anydnn_tensor *t, int64_t size[3], int64_t stride[5])
{
    const int rank = t->ndim - 2;
    int i;
    stride[0] = t->strides[0];
    stride[1] = t->strides[1];
    for (i = 0; i < 3; i++) {
        const int axis = i - (3 - rank) + 2;
        size[i] = i < 3 - rank ? 1 : t->dims[axis];
        stride[i + 2] = i < 3 - rank ? 0 : t->strides[axis];
    }
}

static void spatial_array(int rank, const int64_t *from, int64_t absent, int64_t to[3])
{
    int i;
    for (i = 0; i < 3; i++) to[i] = i < 3 - rank ? absent : from[i - (3 - rank)];
}

void adn_conv_geometry(const struct adn_problem *p, struct adn_conv_geometry *g)
{
    const anydnn_conv *c = &p->desc.conv;
    const anydnn_tensor *x = adn_tensor(p, adn_slot(p, ANYDNN_X) >= 0 ? ANYDNN_X : ANYDNN_DX);
    const anydnn_tensor *w = adn_tensor(p, adn_slot(p, ANYDNN_W) >= 0 ? ANYDNN_W : ANYDNN_DW);
    const anydnn_tensor *y = adn_tensor(p, adn_slot(p, ANYDNN_Y) >= 0 ? ANYDNN_Y : ANYDNN_DY);
    const anydnn_tensor *z = adn_tensor(p, ANYDNN_Z);
    const int rank = x->ndim - 2;
    int64_t unused[3];
    memset(g, 0, sizeof *g);
    g->n = x->dims[0];
    g->groups = c->groups;
    g->c = x->dims[1];
    g->k = w->dims[0];
    g->flip = c->mode == 1;
    spatial_dims(x, g->in, g->xs);
    spatial_dims(w, g->filter, g->ws);
    spatial_dims(y, g->out, g->ys);
    if (z) spatial_dims(z, unused, g->zs);
    spatial_array(rank, c->stride, 1, g->stride);
    spatial_array(rank, c->pad, 0, g->pad);
    spatial_array(rank, c->pad_end, 0, g->pad_end);
    spatial_array(rank, c->dilation, 1, g->dilation);
}

void adn_pool_geometry(const struct adn_problem *p, struct adn_conv_geometry *g)
{
    const anydnn_pool *c = &p->desc.pool;
    const bool forward = p->def->op == ANYDNN_OP_POOL_FORWARD;
    const anydnn_tensor *x = adn_tensor(p, forward ? ANYDNN_X : ANYDNN_DX);
    const anydnn_tensor *y = adn_tensor(p, forward ? ANYDNN_Y : ANYDNN_DY);
    const int rank = x->ndim - 2;
    memset(g, 0, sizeof *g);
    g->n = x->dims[0];
    g->c = g->k = g->groups = x->dims[1];
    spatial_dims(x, g->in, g->xs);
    spatial_dims(y, g->out, g->ys);
    spatial_array(rank, c->window, 1, g->filter);
    spatial_array(rank, c->stride, 1, g->stride);
    spatial_array(rank, c->pad, 0, g->pad);
    spatial_array(rank, c->pad_end, 0, g->pad_end);
    spatial_array(rank, c->dilation, 1, g->dilation);
}

/* ---- walks ---- */

static int64_t walk_stride(const anydnn_tensor *t, int axis) { return t->dims[axis] == 1 ? 0 : t->strides[axis]; }

/* Axes to walk, outermost first. */
static int order_axes(const anydnn_tensor *shape, uint32_t axes, const anydnn_tensor *first, bool keep_order, int *order)
{
    int count = 0, i, j;
    for (i = 0; i < shape->ndim; i++) {
        if (!(axes >> i & 1u) || shape->dims[i] == 1) continue;
        for (j = count; !keep_order && j > 0 && walk_stride(first, order[j - 1]) < walk_stride(first, i); j--)
            order[j] = order[j - 1];
        order[j] = i;
        count++;
    }
    return count;
}

/* Axis `inner` continues the walk's last dim in every tensor: outer stride = inner size * inner stride. */
static bool mergeable(const struct adn_walk *walk, int tensors, const anydnn_tensor *const *tensor, int inner, int64_t size)
{
    int i;
    for (i = 0; i < tensors; i++)
        if (walk->stride[i][walk->rank - 1] != size * walk_stride(tensor[i], inner)) return false;
    return true;
}

void adn_walk_init(struct adn_walk *walk, const anydnn_tensor *shape, uint32_t axes, int tensors,
                   const anydnn_tensor *const *tensor, bool keep_order)
{
    int order[ANYDNN_MAX_DIMS], count, i, j;
    memset(walk, 0, sizeof *walk);
    walk->count = 1;
    walk->size[0] = 1;
    count = order_axes(shape, axes, tensor[0], keep_order, order);
    for (i = 0; i < count; i++) {
        const int64_t size = shape->dims[order[i]];
        walk->count *= size;
        if (walk->rank > 0 && mergeable(walk, tensors, tensor, order[i], size))
            walk->size[walk->rank - 1] *= size;
        else
            walk->size[walk->rank++] = size;
        for (j = 0; j < tensors; j++) walk->stride[j][walk->rank - 1] = walk_stride(tensor[j], order[i]);
    }
}
