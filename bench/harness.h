/* SPDX-License-Identifier: Apache-2.0
 * bench/harness.h: one problem with data, its true result, and runs of it on a device that are compared with it.
 *
 * A trial holds every tensor as a dense row-major array in the dtype of the line ("initial"), so the truth does not
 * depend on strides, aliases or offsets: those are applied only where the device under test sees them. */
#ifndef ADN_BENCH_HARNESS_H
#define ADN_BENCH_HARNESS_H
#include "values.h"
#include <anydnn/anydnn.h>

enum { TRIAL_OPERANDS = 24, TRIAL_TEXT = 2048 };

union any_op {
    anydnn_op head;
    anydnn_conv conv;
    anydnn_pool pool;
    anydnn_activation activation;
    anydnn_softmax softmax;
    anydnn_cross_entropy cross_entropy;
    anydnn_batchnorm batchnorm;
    anydnn_binary binary;
    anydnn_reduce reduce;
    unsigned char bytes[256];
};

struct operand {
    int role;
    uint32_t flags; /* ANYDNN_ROLE_* */
    bool device;    /* scalar that lives in device memory */
    double value;   /* scalar */
    anydnn_tensor tensor;
    uint64_t offset;        /* bytes, from the line */
    int root;               /* operand whose place this one shares; its own number where it has its own */
    int64_t count;          /* elements */
    size_t size;            /* bytes of an element */
    bool read, written;     /* read: the content counts before the run */
    unsigned char *initial; /* dense content before the run; poison where it is not read */
    double *want;           /* dense, written tensors: the true result, not rounded to its dtype */
    double *slack;          /* error allowed besides the rounding to the tensor's dtype */
    double *size_sum;       /* sum of the magnitudes of the terms: what reduced precision scales with */
};

struct trial {
    union any_op op;
    anydnn_prefs prefs;
    char engine[64];
    struct operand operand[TRIAL_OPERANDS];
    int operands;
    uint64_t seed;
    double depth; /* length of the longest sum */
    bool exact;   /* every bit of the outputs is defined: no slack, no rounding */
    int wide;     /* dtype in which the truth is computed */
};

/* A device with one arena of memory, in which all operands of a trial lie between guard bytes. */
struct device {
    anydnn_device_info info;
    anydnn_context *context;
    anydnn_stream *stream;
    anydnn_mem arena;
    uint64_t arena_bytes;
};

/* Opens and closes; false with a message on stderr. */
bool device_open(struct device *device, const char *id);
void device_close(struct device *device);

/* Opens the devices that a word names ("cpu", "opencl", "cuda:1", "all"): how many, or -1 when one failed. */
enum { DEVICES = 16 };
int devices_open(struct device devices[DEVICES], const char *word);

/* Copies a problem and makes its data. `alpha` and `beta` replace those of the line where use_scale. */
anydnn_status trial_init(struct trial *trial, const anydnn_problem *problem, uint64_t seed, bool use_scale,
                         double alpha, double beta);
void trial_free(struct trial *trial);

/* The operand of a role, NULL when it is not bound; a scalar's value, or `otherwise` when it is not bound. */
struct operand *trial_operand(const struct trial *trial, int role);
double trial_scalar(const struct trial *trial, int role, double otherwise);

/* True where the operation has outputs that alpha and beta scale. */
bool trial_is_scaled(const struct trial *trial);

/* True where alpha = 0 says that no input may be read. */
bool trial_reads_nothing(const struct trial *trial);

/* Fills `initial` of every operand (fill.c). `reference` is needed where data follow from other data (indices). */
anydnn_status trial_fill(struct trial *trial, struct device *reference);

/* Computes want, slack and size_sum on the CPU reference (reference.c, tolerance.c). */
anydnn_status trial_reference(struct trial *trial, struct device *reference);
anydnn_status trial_tolerance(struct trial *trial, struct device *reference);
/* For each written operand, a sum that bounds the magnitudes of the terms of its elements, old output aside; arrays to
 * be freed by the caller, also after a failure. */
anydnn_status trial_magnitudes(const struct trial *trial, struct device *reference, double *result[TRIAL_OPERANDS]);

/* Runs an operation on the reference. Its tensors are packed, in the dims and roles of `operand`, and lie in `data`;
 * rows without data are scalars. Blocks until done. */
struct dense {
    int role;
    anydnn_tensor tensor;
    void *data; /* NULL = a scalar */
    double value;
};
anydnn_status dense_run(struct device *reference, const anydnn_op *op, const struct dense *rows, int count);
/* Packed description in another dtype, and a copy of an operand's content in it (NULL when memory is short). */
anydnn_tensor dense_tensor(const anydnn_tensor *tensor, int dtype);
void *dense_copy(const struct operand *operand, int dtype, bool magnitudes);

/* Where tensors lie: as the line says; one element off every alignment with nothing promised; or aligned and promised
 * to be so. The latter two only for lines that say nothing on it. */
enum placement { PLACE_AS_GIVEN, PLACE_UNALIGNED, PLACE_ALIGNED };
bool trial_is_placed(const struct trial *trial);

/* Bindings of the trial; memory begins at `base` when it has a kind (places are laid out behind it), else it is a
 * pretended one that shows offsets and aliases. Tensors are written to `tensors`. Result: number of bindings. */
struct layout {
    uint64_t start[TRIAL_OPERANDS]; /* byte offset of the first element in the arena */
    uint64_t bytes;                 /* of the whole arena, the workspace aside */
    anydnn_tensor tensor[TRIAL_OPERANDS];
    anydnn_binding binding[TRIAL_OPERANDS];
    int count;
};
void trial_layout(const struct trial *trial, enum placement placement, anydnn_mem arena, struct layout *layout);

/* The line of the trial in a placement with an engine pinned (NULL = none). */
void trial_print(const struct trial *trial, enum placement placement, const char *engine, char text[TRIAL_TEXT]);

/* Runs one engine and compares: true when everything is right, else `why` tells what is not. */
bool trial_run(const struct trial *trial, struct device *device, const anydnn_verdict *engine, enum placement placement,
               char *why, size_t capacity);

#endif
