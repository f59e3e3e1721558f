/* SPDX-License-Identifier: Apache-2.0
 * backends/opencl/loader.h: OpenCL 1.2 without its headers: the types, constants and entry points that this backend
 * uses, resolved from the ICD loader at run time, and the one place where OpenCL codes become statuses. */
#ifndef ADN_OPENCL_LOADER_H
#define ADN_OPENCL_LOADER_H
#include "common/backend.h"

#if defined(_WIN32)
#define ADN_CL_CALL __stdcall
#else
#define ADN_CL_CALL
#endif

typedef int32_t cl_int;
typedef uint32_t cl_uint, cl_bool;
typedef uint64_t cl_ulong, cl_bitfield;
typedef struct _cl_platform_id *cl_platform_id;
typedef struct _cl_device_id *cl_device_id;
typedef struct _cl_context *cl_context;
typedef struct _cl_command_queue *cl_command_queue;
typedef struct _cl_mem *cl_mem;
typedef struct _cl_program *cl_program;
typedef struct _cl_kernel *cl_kernel;
typedef struct _cl_event *cl_event;
typedef void(ADN_CL_CALL *adn_cl_context_notify)(const char *, const void *, size_t, void *);
typedef void(ADN_CL_CALL *adn_cl_program_notify)(cl_program, void *);
typedef void(ADN_CL_CALL *adn_cl_event_notify)(cl_event, cl_int, void *);

enum {
    CL_SUCCESS = 0,
    CL_COMPLETE = 0,
    CL_DEVICE_NOT_FOUND = -1,
    CL_COMPILER_NOT_AVAILABLE = -3,
    CL_MEM_OBJECT_ALLOCATION_FAILURE = -4,
    CL_OUT_OF_RESOURCES = -5,
    CL_OUT_OF_HOST_MEMORY = -6,
    CL_BUILD_PROGRAM_FAILURE = -11,
    CL_INVALID_VALUE = -30,
    CL_INVALID_DEVICE = -33,
    CL_INVALID_CONTEXT = -34,
    CL_INVALID_COMMAND_QUEUE = -36,
    CL_INVALID_MEM_OBJECT = -38,
    CL_INVALID_BUILD_OPTIONS = -43,
    CL_INVALID_ARG_SIZE = -51,
    CL_INVALID_BUFFER_SIZE = -61,
    CL_PLATFORM_NOT_FOUND = -1001,

    CL_PLATFORM_VERSION = 0x0901,
    CL_PLATFORM_NAME = 0x0902,
    CL_DEVICE_TYPE = 0x1000,
    CL_DEVICE_MAX_COMPUTE_UNITS = 0x1002,
    CL_DEVICE_MAX_WORK_GROUP_SIZE = 0x1004,
    CL_DEVICE_ADDRESS_BITS = 0x100D,
    CL_DEVICE_MAX_MEM_ALLOC_SIZE = 0x1010,
    CL_DEVICE_GLOBAL_MEM_SIZE = 0x101F,
    CL_DEVICE_LOCAL_MEM_SIZE = 0x1023,
    CL_DEVICE_AVAILABLE = 0x1027,
    CL_DEVICE_COMPILER_AVAILABLE = 0x1028,
    CL_DEVICE_NAME = 0x102B,
    CL_DEVICE_VENDOR = 0x102C,
    CL_DRIVER_VERSION = 0x102D,
    CL_DEVICE_VERSION = 0x102F,
    CL_DEVICE_EXTENSIONS = 0x1030,
    CL_DEVICE_PLATFORM = 0x1031,
    CL_DEVICE_DOUBLE_FP_CONFIG = 0x1032,
    CL_DEVICE_HOST_UNIFIED_MEMORY = 0x1035,
    CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV = 0x4000,
    CL_DEVICE_COMPUTE_CAPABILITY_MINOR_NV = 0x4001,

    CL_CONTEXT_DEVICES = 0x1081,
    CL_CONTEXT_PLATFORM = 0x1084,
    CL_QUEUE_CONTEXT = 0x1090,
    CL_MEM_SIZE = 0x1102,
    CL_MEM_CONTEXT = 0x1106,
    CL_QUEUE_DEVICE = 0x1091,
    CL_QUEUE_PROPERTIES = 0x1093,
    CL_PROGRAM_DEVICES = 0x1163,
    CL_PROGRAM_BINARY_SIZES = 0x1165,
    CL_PROGRAM_BINARIES = 0x1166,
    CL_PROGRAM_BUILD_LOG = 0x1183,
    CL_KERNEL_NUM_ARGS = 0x1191,
    CL_KERNEL_WORK_GROUP_SIZE = 0x11B0,
    CL_KERNEL_LOCAL_MEM_SIZE = 0x11B2,
    CL_PROFILING_COMMAND_END = 0x1283
};
#define CL_DEVICE_TYPE_CPU ((cl_bitfield)2)
#define CL_DEVICE_TYPE_GPU ((cl_bitfield)4)
#define CL_DEVICE_TYPE_ALL ((cl_bitfield)0xFFFFFFFF)
#define CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE ((cl_bitfield)1)
#define CL_QUEUE_PROFILING_ENABLE ((cl_bitfield)2)
#define CL_MEM_READ_WRITE ((cl_bitfield)1)

/* Entry points: result, name, parameters. */
#define ADN_CL_FUNCTIONS(F)                                                                                            \
    F(cl_int, GetPlatformIDs, (cl_uint, cl_platform_id *, cl_uint *))                                                  \
    F(cl_int, GetPlatformInfo, (cl_platform_id, cl_uint, size_t, void *, size_t *))                                    \
    F(cl_int, GetDeviceIDs, (cl_platform_id, cl_bitfield, cl_uint, cl_device_id *, cl_uint *))                         \
    F(cl_int, GetDeviceInfo, (cl_device_id, cl_uint, size_t, void *, size_t *))                                        \
    F(cl_context, CreateContext,                                                                                       \
      (const intptr_t *, cl_uint, const cl_device_id *, adn_cl_context_notify, void *, cl_int *))                      \
    F(cl_int, RetainContext, (cl_context))                                                                             \
    F(cl_int, ReleaseContext, (cl_context))                                                                            \
    F(cl_int, GetContextInfo, (cl_context, cl_uint, size_t, void *, size_t *))                                         \
    F(cl_command_queue, CreateCommandQueue, (cl_context, cl_device_id, cl_bitfield, cl_int *))                         \
    F(cl_int, RetainCommandQueue, (cl_command_queue))                                                                  \
    F(cl_int, ReleaseCommandQueue, (cl_command_queue))                                                                 \
    F(cl_int, GetCommandQueueInfo, (cl_command_queue, cl_uint, size_t, void *, size_t *))                              \
    F(cl_int, Flush, (cl_command_queue))                                                                               \
    F(cl_int, Finish, (cl_command_queue))                                                                              \
    F(cl_mem, CreateBuffer, (cl_context, cl_bitfield, size_t, void *, cl_int *))                                       \
    F(cl_int, ReleaseMemObject, (cl_mem))                                                                              \
    F(cl_int, GetMemObjectInfo, (cl_mem, cl_uint, size_t, void *, size_t *))                                           \
    F(cl_int, EnqueueReadBuffer,                                                                                       \
      (cl_command_queue, cl_mem, cl_bool, size_t, size_t, void *, cl_uint, const cl_event *, cl_event *))              \
    F(cl_int, EnqueueWriteBuffer,                                                                                      \
      (cl_command_queue, cl_mem, cl_bool, size_t, size_t, const void *, cl_uint, const cl_event *, cl_event *))        \
    F(cl_int, EnqueueCopyBuffer,                                                                                       \
      (cl_command_queue, cl_mem, cl_mem, size_t, size_t, size_t, cl_uint, const cl_event *, cl_event *))               \
    F(cl_int, EnqueueFillBuffer,                                                                                       \
      (cl_command_queue, cl_mem, const void *, size_t, size_t, size_t, cl_uint, const cl_event *, cl_event *))         \
    F(cl_int, EnqueueNDRangeKernel,                                                                                    \
      (cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *, const size_t *, cl_uint,                  \
       const cl_event *, cl_event *))                                                                                  \
    F(cl_int, EnqueueMarkerWithWaitList, (cl_command_queue, cl_uint, const cl_event *, cl_event *))                    \
    F(cl_int, EnqueueBarrierWithWaitList, (cl_command_queue, cl_uint, const cl_event *, cl_event *))                   \
    F(cl_int, WaitForEvents, (cl_uint, const cl_event *))                                                              \
    F(cl_int, RetainEvent, (cl_event))                                                                                 \
    F(cl_int, ReleaseEvent, (cl_event))                                                                                \
    F(cl_int, SetEventCallback, (cl_event, cl_int, adn_cl_event_notify, void *))                                       \
    F(cl_int, GetEventProfilingInfo, (cl_event, cl_uint, size_t, void *, size_t *))                                    \
    F(cl_program, CreateProgramWithSource, (cl_context, cl_uint, const char **, const size_t *, cl_int *))             \
    F(cl_program, CreateProgramWithBinary,                                                                             \
      (cl_context, cl_uint, const cl_device_id *, const size_t *, const unsigned char **, cl_int *, cl_int *))         \
    F(cl_int, BuildProgram, (cl_program, cl_uint, const cl_device_id *, const char *, adn_cl_program_notify, void *))  \
    F(cl_int, GetProgramInfo, (cl_program, cl_uint, size_t, void *, size_t *))                                         \
    F(cl_int, GetProgramBuildInfo, (cl_program, cl_device_id, cl_uint, size_t, void *, size_t *))                      \
    F(cl_int, ReleaseProgram, (cl_program))                                                                            \
    F(cl_kernel, CreateKernel, (cl_program, const char *, cl_int *))                                                   \
    F(cl_int, ReleaseKernel, (cl_kernel))                                                                              \
    F(cl_int, SetKernelArg, (cl_kernel, cl_uint, size_t, const void *))                                                \
    F(cl_int, GetKernelInfo, (cl_kernel, cl_uint, size_t, void *, size_t *))                                           \
    F(cl_int, GetKernelWorkGroupInfo, (cl_kernel, cl_device_id, cl_uint, size_t, void *, size_t *))

struct adn_cl_api {
#define ADN_CL_MEMBER(result, name, parameters) result(ADN_CL_CALL *name) parameters;
    ADN_CL_FUNCTIONS(ADN_CL_MEMBER)
#undef ADN_CL_MEMBER
};

/* Valid after adn_cl_load() returned true. */
extern struct adn_cl_api adn_cl;

/* Opens the ICD loader once in the process; it is never closed, because drivers keep threads and exit handlers.
 * False: *why (may be NULL) says what is missing. */
bool adn_cl_load(const char **why);

/* "CL_OUT_OF_RESOURCES"; "unknown OpenCL code" for any other number. */
const char *adn_cl_code_name(cl_int code);

/* What a call was about: the same code means different things. */
enum adn_cl_where {
    ADN_CL_ALLOC,   /* creating an object: out of resources is out of memory */
    ADN_CL_ENQUEUE, /* running: out of resources is a fault of the device */
    ADN_CL_COPY,    /* as ENQUEUE, but a bad range or buffer is the caller's */
    ADN_CL_WRAP     /* handles that the caller gave */
};

/* OK for CL_SUCCESS, else the status with a message that names the call, the code and, where given, the variant. */
anydnn_status adn_cl_check(cl_int code, enum adn_cl_where where, const char *call, const struct adn_variant *variant);

#define ADN_CL_TRY(where, call) ADN_TRY(adn_cl_check((call), (where), #call, NULL))
#endif
