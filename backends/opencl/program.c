/* SPDX-License-Identifier: Apache-2.0
 * backends/opencl/program.c: one program for each (stem, dtype, block, constants), built from the embedded source once
 * in a context. Builds run outside the context's lock; threads that want the same program wait for that one alone. */
#include "internal.h"

#include "common/embedded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Tasks. ---- */

bool adn_cl_task_begin(struct adn_cl_context *own, struct adn_cl_task *task, anydnn_status *status)
{
    bool mine;
    adn_mutex_lock(own->lock);
    while (task->state == 1) adn_condition_wait(own->built, own->lock);
    mine = task->state == 0;
    if (mine) task->state = 1;
    *status = task->status;
    adn_mutex_unlock(own->lock);
    if (!mine && *status != ANYDNN_OK) adn_fail(*status, "%s", task->message ? task->message : "refused before");
    return mine;
}

void adn_cl_task_finish(struct adn_cl_context *own, struct adn_cl_task *task, anydnn_status status)
{
    bool stays = status == ANYDNN_OK || status == ANYDNN_UNSUPPORTED;
    size_t length = status == ANYDNN_UNSUPPORTED ? strlen(anydnn_message()) + 1 : 0;
    char *message = length ? malloc(length) : NULL;
    if (message) memcpy(message, anydnn_message(), length);
    adn_mutex_lock(own->lock);
    task->state = stays ? 2 : 0;
    task->status = stays ? status : ANYDNN_OK;
    task->message = message;
    adn_condition_signal_all(own->built);
    adn_mutex_unlock(own->lock);
}

/* ---- Building. ---- */

struct adn_cl_program {
    const struct adn_variant *like; /* a variant of this program */
    struct adn_cl_task task;
    cl_program native;
    struct adn_cl_program *next;
};

enum { OPTIONS_LENGTH = 256, LOG_LENGTH = 8192 };

static void write_options(const struct adn_variant *v, bool cpu, char options[OPTIONS_LENGTH])
{
    const int32_t *c = v->constant;
    snprintf(options, OPTIONS_LENGTH,
             "-cl-std=CL1.2 -w -DADN_DTYPE_%s=1 -DADN_BLOCK=%d -DADN_C0=%d -DADN_C1=%d -DADN_C2=%d -DADN_C3=%d "
             "-DADN_C4=%d -DADN_C5=%d -DADN_CPU=%d",
             v->dtype_name, (int)v->block, (int)c[0], (int)c[1], (int)c[2], (int)c[3], (int)c[4], (int)c[5], cpu);
}

const char *adn_cl_entry_name(const struct adn_variant *variant, char name[ADN_CL_ENTRY_LENGTH])
{
    snprintf(name, ADN_CL_ENTRY_LENGTH, "adn_%s", variant->kernel);
    return name;
}

/* Log of a failed build in `text` (LOG_LENGTH bytes). */
static void read_log(const struct adn_cl_context *own, cl_program program, char *text)
{
    size_t size = 0;
    char *whole;
    text[0] = 0;
    if (adn_cl.GetProgramBuildInfo(program, own->device, CL_PROGRAM_BUILD_LOG, 0, NULL, &size) != CL_SUCCESS) return;
    whole = calloc(1, size + 1);
    if (!whole) return;
    if (adn_cl.GetProgramBuildInfo(program, own->device, CL_PROGRAM_BUILD_LOG, size, whole, NULL) == CL_SUCCESS)
        snprintf(text, LOG_LENGTH, "%s", whole);
    free(whole);
}

static anydnn_status refuse(anydnn_context *context, cl_program program, cl_int code, const struct adn_variant *v)
{
    char *log = malloc(LOG_LENGTH);
    if (!log) return adn_fail(ANYDNN_OUT_OF_MEMORY, "no host memory for a build log");
    read_log(adn_cl_native(context), program, log);
    adn_log(context, ANYDNN_LOG_WARNING, "%s: clBuildProgram of %s (%s, block %d) failed with %d (%s)\n%s",
            context->device.info.id, v->stem, v->dtype_name, (int)v->block, (int)code, adn_cl_code_name(code), log);
    adn_fail_native(ANYDNN_UNSUPPORTED, code, "the compiler of %s refused %s (%s, block %d) with %d (%s): %.600s",
                    context->device.info.id, v->stem, v->dtype_name, (int)v->block, (int)code, adn_cl_code_name(code),
                    log[0] ? log : "no build log");
    free(log);
    return ANYDNN_UNSUPPORTED;
}

/* The compiler's answer to this source; any other code is about the device or the host, and the next try may work. */
static bool is_refusal(cl_int code)
{
    return code == CL_BUILD_PROGRAM_FAILURE || code == CL_COMPILER_NOT_AVAILABLE || code == CL_INVALID_BUILD_OPTIONS;
}

static anydnn_status build_source(anydnn_context *context, const struct adn_embedded *source, const char *options,
                                  const struct adn_variant *variant, cl_program *program)
{
    struct adn_cl_context *own = adn_cl_native(context);
    const char *text = (const char *)source->bytes;
    size_t size = *source->size;
    anydnn_status status;
    cl_int code;
    cl_program made = adn_cl.CreateProgramWithSource(own->context, 1, &text, &size, &code);
    ADN_TRY(adn_cl_check(code, ADN_CL_ALLOC, "clCreateProgramWithSource", variant));
    code = adn_cl.BuildProgram(made, 1, &own->device, options, NULL, NULL);
    /* Processes that race for the driver's own fresh cache see one spurious failure. */
    if (code == CL_BUILD_PROGRAM_FAILURE) code = adn_cl.BuildProgram(made, 1, &own->device, options, NULL, NULL);
    if (code == CL_SUCCESS) {
        *program = made;
        return ANYDNN_OK;
    }
    if (is_refusal(code))
        status = refuse(context, made, code, variant);
    else
        status = adn_cl_check(code, ADN_CL_ALLOC, "clBuildProgram", variant);
    adn_cl.ReleaseProgram(made);
    return status;
}

/* ---- Disk cache. ---- */

/* A binary may be stale in ways that only the driver sees: anything short of the wanted kernel is a miss. */
static bool build_cached(const struct adn_cl_context *own, const struct adn_cache_key *key, const char *options,
                         const struct adn_variant *variant, cl_program *program)
{
    char name[ADN_CL_ENTRY_LENGTH];
    size_t size;
    cl_int code, each = CL_SUCCESS;
    cl_kernel kernel = NULL;
    unsigned char *binary = adn_cache_load(key, &size);
    const unsigned char *bytes = binary;
    cl_program made;
    if (!binary) return false;
    made = adn_cl.CreateProgramWithBinary(own->context, 1, &own->device, &size, &bytes, &each, &code);
    free(binary);
    if (code == CL_SUCCESS && each == CL_SUCCESS)
        code = adn_cl.BuildProgram(made, 1, &own->device, options, NULL, NULL);
    if (code == CL_SUCCESS && each == CL_SUCCESS)
        kernel = adn_cl.CreateKernel(made, adn_cl_entry_name(variant, name), &code);
    if (kernel) {
        adn_cl.ReleaseKernel(kernel);
        *program = made;
        return true;
    }
    if (made) adn_cl.ReleaseProgram(made);
    adn_cache_drop(key);
    return false;
}

/* The binary for our device in malloc'ed memory: a caller's context may have several devices. NULL: none. */
static unsigned char *read_binary(const struct adn_cl_context *own, cl_program program, size_t *size)
{
    enum { MOST = 32 };
    cl_device_id devices[MOST];
    size_t sizes[MOST] = { 0 }, got = 0, i, mine = MOST;
    unsigned char *binaries[MOST] = { NULL };
    if (adn_cl.GetProgramInfo(program, CL_PROGRAM_DEVICES, sizeof devices, devices, &got) != CL_SUCCESS) return NULL;
    for (i = 0; i < got / sizeof devices[0]; i++)
        if (devices[i] == own->device) mine = i;
    if (mine == MOST) return NULL;
    if (adn_cl.GetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof sizes, sizes, NULL) != CL_SUCCESS) return NULL;
    if (!sizes[mine] || (binaries[mine] = malloc(sizes[mine])) == NULL) return NULL;
    *size = sizes[mine];
    if (adn_cl.GetProgramInfo(program, CL_PROGRAM_BINARIES, got / sizeof devices[0] * sizeof binaries[0], binaries,
                              NULL) == CL_SUCCESS)
        return binaries[mine];
    free(binaries[mine]);
    return NULL;
}

static void keep(const struct adn_cl_context *own, const struct adn_cache_key *key, cl_program program)
{
    size_t size = 0;
    unsigned char *binary = read_binary(own, program, &size);
    if (binary) adn_cache_store(key, binary, size);
    free(binary);
}

static anydnn_status build(anydnn_context *context, const struct adn_variant *variant, cl_program *program)
{
    struct adn_cl_context *own = adn_cl_native(context);
    const struct adn_embedded *source = adn_opencl_stems;
    struct adn_cache_key key = own->identity;
    char options[OPTIONS_LENGTH];
    while (source->stem && strcmp(source->stem, variant->stem) != 0) source++;
    if (!source->stem) return adn_fail(ANYDNN_UNSUPPORTED, "this build has no OpenCL kernels %s", variant->stem);
    write_options(variant, context->device.info.is_cpu != 0, options);
    adn_cache_key_add(&key, options, strlen(options));
    adn_cache_key_add(&key, source->bytes, *source->size);
    if (own->identified && build_cached(own, &key, options, variant, program)) return ANYDNN_OK;
    ADN_TRY(build_source(context, source, options, variant, program));
    if (own->identified) keep(own, &key, *program);
    return ANYDNN_OK;
}

/* ---- The context's list. ---- */

static bool same_program(const struct adn_variant *a, const struct adn_variant *b)
{
    return a->dtype == b->dtype && a->block == b->block && memcmp(a->constant, b->constant, sizeof a->constant) == 0 &&
           strcmp(a->stem, b->stem) == 0;
}

static struct adn_cl_program *find(struct adn_cl_context *own, const struct adn_variant *variant)
{
    struct adn_cl_program *program;
    adn_mutex_lock(own->lock);
    for (program = own->programs; program && !same_program(program->like, variant);) program = program->next;
    if (!program && (program = calloc(1, sizeof *program)) != NULL) {
        program->like = variant;
        program->next = own->programs;
        own->programs = program;
    }
    adn_mutex_unlock(own->lock);
    return program;
}

anydnn_status adn_cl_program_get(anydnn_context *context, const struct adn_variant *variant, cl_program *native)
{
    struct adn_cl_context *own = adn_cl_native(context);
    struct adn_cl_program *program = find(own, variant);
    anydnn_status status;
    if (!program) return adn_fail(ANYDNN_OUT_OF_MEMORY, "no host memory for a program");
    if (adn_cl_task_begin(own, &program->task, &status)) {
        status = build(context, variant, &program->native);
        adn_cl_task_finish(own, &program->task, status);
    }
    *native = program->native;
    return status;
}

void adn_cl_programs_release(struct adn_cl_context *own)
{
    while (own->programs) {
        struct adn_cl_program *program = own->programs;
        own->programs = program->next;
        if (program->native) adn_cl.ReleaseProgram(program->native);
        free(program->task.message);
        free(program);
    }
}
