/* SPDX-License-Identifier: Apache-2.0
 * tests/support/job.h: runs a problem line through the public API on values of the caller. A session is a device with
 * one arena of its memory; a job is a line with its tensors, whose dense row-major contents are doubles. A run lays the
 * tensors out between guard bytes, poisons outputs, gaps and the workspace (all bits 1: NaN), runs one engine and reads
 * the outputs back. Not supported: aliases, byte offsets and device scalars in lines. */
#ifndef ADN_TESTS_JOB_H
#define ADN_TESTS_JOB_H
#include <anydnn/anydnn.h>
#include <stdbool.h>

enum { JOB_OPERANDS = 12, JOB_ENGINES = 96, SESSION_NO_DEVICE = 77 };

struct session {
    anydnn_device_info info;
    anydnn_context *context;
    anydnn_stream *stream;
    anydnn_mem arena;
    unsigned char *before, *after; /* what was sent to the arena, and what came back */
    uint64_t bytes;
};

/* Whether `flag` is among the arguments of a test; *device: the one that is not, or "cpu". */
bool test_arguments(int argc, char **argv, const char *flag, const char **device);

/* Opens a device with an arena; result: 0, or the exit code of the test, which has said why. */
int session_open(struct session *s, const char *device, const anydnn_open_options *options, uint64_t arena_bytes);
void session_close(struct session *s);

struct operand {
    int role;
    uint32_t flags; /* ANYDNN_ROLE_* */
    anydnn_tensor tensor;
    int64_t count;  /* elements */
    int64_t shift;  /* elements from an aligned address to the first one */
    uint64_t start; /* bytes from the arena's start, set by a run */
    double *data;   /* dense content before a run; NaN at first */
    double *got;    /* dense content of an output after a run */
};

struct job {
    anydnn_problem *problem;
    const anydnn_op *op;
    struct operand operand[JOB_OPERANDS];
    anydnn_binding scalar[JOB_OPERANDS];
    int operands, scalars;
    int promised;  /* bytes of alignment that the tensors promise; 0 = none */
    bool one_shot; /* through anydnn_run and its cache of plans, without workspace */
};

/* Takes a line; INVALID where the library refuses it (nothing is to be closed then). */
anydnn_status job_open(struct job *job, const char *line);
void job_close(struct job *job);

/* The operand of a role; NULL where it is not bound. */
struct operand *job_operand(struct job *job, int role);

/* Sets contents to values that are repeated as often as needed, and a scalar. */
void job_set(struct job *job, int role, const double *values, int64_t count);
void job_scalar(struct job *job, int role, double value);

/* Ways for an operand to lie in memory. A stride of 0 (inputs; others get gaps) makes its content constant along the
 * channels; LAYOUT_OFFSET begins `shift` elements behind an aligned address. */
enum layout {
    LAYOUT_PACKED,
    LAYOUT_CHANNELS_LAST,
    LAYOUT_ROWS,
    LAYOUT_REVERSED,
    LAYOUT_GAPS,
    LAYOUT_ZERO,
    LAYOUT_OFFSET,
    LAYOUTS
};
void job_layout(struct operand *operand, int layout, int shift);

/* A multiple of 1/8 in [-1, 1]: exact in every floating type, and so are short sums of products. */
double job_eighths(uint64_t seed, uint64_t index);

/* Names of the engines that take the job: the own choice of each, with all also other parameters. */
int job_engines(const struct session *s, struct job *job, bool all, char names[JOB_ENGINES][64]);

/* Runs one engine (NULL = automatic) and fills `got`. INTERNAL, with a line on stdout, where bytes outside the outputs
 * have changed. */
anydnn_status job_run(struct session *s, struct job *job, const anydnn_prefs *prefs, const char *engine);

#endif
