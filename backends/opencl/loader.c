/* SPDX-License-Identifier: Apache-2.0
 * backends/opencl/loader.c: the ICD loader opened at run time; names of OpenCL's codes, and their statuses. */
#include "loader.h"

#include "common/os.h"

#include <stdio.h>
#include <string.h>

struct adn_cl_api adn_cl;
static adn_once load_once;
static bool loaded;
static char load_problem[160];

static bool resolve(void *library, const char *name, void *slot)
{
    char full[64];
    void *symbol;
    snprintf(full, sizeof full, "cl%s", name);
    symbol = adn_library_symbol(library, full);
    memcpy(slot, &symbol, sizeof symbol);
    if (!symbol)
        snprintf(load_problem, sizeof load_problem, "the OpenCL loader has no %s (OpenCL 1.2 is needed)", full);
    return symbol != NULL;
}

static void load(void)
{
    static const char *const names[] = { "libOpenCL.so.1", "libOpenCL.so", NULL };
    void *library = adn_library_open(names);
    if (!library) {
        snprintf(load_problem, sizeof load_problem, "libOpenCL.so.1 not found");
        return;
    }
    loaded = true;
#define ADN_CL_RESOLVE(result, name, parameters) loaded = loaded && resolve(library, #name, &adn_cl.name);
    ADN_CL_FUNCTIONS(ADN_CL_RESOLVE)
#undef ADN_CL_RESOLVE
}

bool adn_cl_load(const char **why)
{
    adn_run_once(&load_once, load);
    if (why) *why = load_problem;
    return loaded;
}

/* Names by -code; gaps in the numbering are NULL. */
static const char *const low_names[] = { "CL_SUCCESS",
                                         "CL_DEVICE_NOT_FOUND",
                                         "CL_DEVICE_NOT_AVAILABLE",
                                         "CL_COMPILER_NOT_AVAILABLE",
                                         "CL_MEM_OBJECT_ALLOCATION_FAILURE",
                                         "CL_OUT_OF_RESOURCES",
                                         "CL_OUT_OF_HOST_MEMORY",
                                         "CL_PROFILING_INFO_NOT_AVAILABLE",
                                         "CL_MEM_COPY_OVERLAP",
                                         "CL_IMAGE_FORMAT_MISMATCH",
                                         "CL_IMAGE_FORMAT_NOT_SUPPORTED",
                                         "CL_BUILD_PROGRAM_FAILURE",
                                         "CL_MAP_FAILURE",
                                         "CL_MISALIGNED_SUB_BUFFER_OFFSET",
                                         "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST",
                                         "CL_COMPILE_PROGRAM_FAILURE",
                                         "CL_LINKER_NOT_AVAILABLE",
                                         "CL_LINK_PROGRAM_FAILURE",
                                         "CL_DEVICE_PARTITION_FAILED",
                                         "CL_KERNEL_ARG_INFO_NOT_AVAILABLE" };
static const char *const high_names[] = { /* from -30 on */
                                          "CL_INVALID_VALUE",
                                          "CL_INVALID_DEVICE_TYPE",
                                          "CL_INVALID_PLATFORM",
                                          "CL_INVALID_DEVICE",
                                          "CL_INVALID_CONTEXT",
                                          "CL_INVALID_QUEUE_PROPERTIES",
                                          "CL_INVALID_COMMAND_QUEUE",
                                          "CL_INVALID_HOST_PTR",
                                          "CL_INVALID_MEM_OBJECT",
                                          "CL_INVALID_IMAGE_FORMAT_DESCRIPTOR",
                                          "CL_INVALID_IMAGE_SIZE",
                                          "CL_INVALID_SAMPLER",
                                          "CL_INVALID_BINARY",
                                          "CL_INVALID_BUILD_OPTIONS",
                                          "CL_INVALID_PROGRAM",
                                          "CL_INVALID_PROGRAM_EXECUTABLE",
                                          "CL_INVALID_KERNEL_NAME",
                                          "CL_INVALID_KERNEL_DEFINITION",
                                          "CL_INVALID_KERNEL",
                                          "CL_INVALID_ARG_INDEX",
                                          "CL_INVALID_ARG_VALUE",
                                          "CL_INVALID_ARG_SIZE",
                                          "CL_INVALID_KERNEL_ARGS",
                                          "CL_INVALID_WORK_DIMENSION",
                                          "CL_INVALID_WORK_GROUP_SIZE",
                                          "CL_INVALID_WORK_ITEM_SIZE",
                                          "CL_INVALID_GLOBAL_OFFSET",
                                          "CL_INVALID_EVENT_WAIT_LIST",
                                          "CL_INVALID_EVENT",
                                          "CL_INVALID_OPERATION",
                                          "CL_INVALID_GL_OBJECT",
                                          "CL_INVALID_BUFFER_SIZE",
                                          "CL_INVALID_MIP_LEVEL",
                                          "CL_INVALID_GLOBAL_WORK_SIZE",
                                          "CL_INVALID_PROPERTY",
                                          "CL_INVALID_IMAGE_DESCRIPTOR",
                                          "CL_INVALID_COMPILER_OPTIONS",
                                          "CL_INVALID_LINKER_OPTIONS",
                                          "CL_INVALID_DEVICE_PARTITION_COUNT",
                                          "CL_INVALID_PIPE_SIZE",
                                          "CL_INVALID_DEVICE_QUEUE",
                                          "CL_INVALID_SPEC_ID",
                                          "CL_MAX_SIZE_RESTRICTION_EXCEEDED"
};

const char *adn_cl_code_name(cl_int code)
{
    int low = (int)(sizeof low_names / sizeof low_names[0]), high = (int)(sizeof high_names / sizeof high_names[0]);
    if (code <= 0 && code > -low) return low_names[-code];
    if (code <= -30 && code > -30 - high) return high_names[-30 - code];
    if (code == -9999) return "NVIDIA: illegal access by earlier work";
    return code == CL_PLATFORM_NOT_FOUND ? "CL_PLATFORM_NOT_FOUND_KHR" : "unknown OpenCL code";
}

static anydnn_status status_of(cl_int code, enum adn_cl_where where)
{
    bool callers = where == ADN_CL_COPY || where == ADN_CL_WRAP;
    switch (code) {
    case CL_MEM_OBJECT_ALLOCATION_FAILURE:
    case CL_OUT_OF_HOST_MEMORY:
        return ANYDNN_OUT_OF_MEMORY;
    case CL_INVALID_BUFFER_SIZE:
        return where == ADN_CL_ALLOC ? ANYDNN_OUT_OF_MEMORY : ANYDNN_INTERNAL;
    /* NVIDIA reports kernels that touch what they must not by this code. */
    case CL_OUT_OF_RESOURCES:
        return where == ADN_CL_ALLOC ? ANYDNN_OUT_OF_MEMORY : ANYDNN_DEVICE;
    case CL_INVALID_MEM_OBJECT:
        return ANYDNN_INVALID; /* memories come from the caller alone */
    case CL_INVALID_VALUE:
    case CL_INVALID_CONTEXT:
        return callers ? ANYDNN_INVALID : ANYDNN_DEVICE;
    case CL_INVALID_DEVICE:
    case CL_INVALID_COMMAND_QUEUE:
        return where == ADN_CL_WRAP ? ANYDNN_INVALID : ANYDNN_DEVICE;
    default:
        break;
    }
    if (code <= -48 && code >= -63) return ANYDNN_INTERNAL; /* our launch was wrong */
    return ANYDNN_DEVICE;
}

anydnn_status adn_cl_check(cl_int code, enum adn_cl_where where, const char *call, const struct adn_variant *variant)
{
    static const char member[] = "adn_cl.";
    const char *prefix = "";
    char kernel[96] = "";
    if (code == CL_SUCCESS) return ANYDNN_OK;
    if (variant)
        snprintf(kernel, sizeof kernel, " (kernel %s of %s, %s, block %d)", variant->kernel, variant->stem,
                 variant->dtype_name, (int)variant->block);
    /* ADN_CL_TRY passes the text of the whole call: its name is enough. */
    if (strncmp(call, member, sizeof member - 1) == 0) {
        prefix = "cl";
        call += sizeof member - 1;
    }
    return adn_fail_native(status_of(code, where), code, "%s%.*s failed with %d (%s)%s", prefix, (int)strcspn(call, "("),
                           call, (int)code, adn_cl_code_name(code), kernel);
}
