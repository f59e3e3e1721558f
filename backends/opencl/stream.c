/* SPDX-License-Identifier: Apache-2.0
 * backends/opencl/stream.c: in-order queues and events. Own queues profile on GPUs, where a completion reaches the host
 * up to 20 ms late (seen on NVIDIA); on CPUs the host's time of completion is as good and costs nothing. Profiling
 * times are preferred where the queue has them and they make sense. */
#include "internal.h"

#include <stdatomic.h>
#include <stdlib.h>

/* ---- Queues. ---- */

static anydnn_status check_wrapped(const struct adn_cl_context *own, cl_command_queue queue)
{
    cl_context context = NULL;
    cl_device_id device = NULL;
    cl_bitfield properties = 0;
    ADN_CL_TRY(ADN_CL_WRAP, adn_cl.GetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof(cl_context), &context, NULL));
    ADN_CL_TRY(ADN_CL_WRAP, adn_cl.GetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof(cl_device_id), &device, NULL));
    ADN_CL_TRY(ADN_CL_WRAP,
               adn_cl.GetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL));
    if (context != own->context)
        return adn_fail(ANYDNN_INVALID, "queue belongs to another cl_context; accepted: a queue of the context's own");
    if (device != own->device)
        return adn_fail(ANYDNN_INVALID,
                        "queue belongs to another cl_device_id; accepted: a queue of the context's own");
    if (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)
        return adn_fail(ANYDNN_INVALID, "queue is out-of-order; accepted: in-order queues");
    return ANYDNN_OK;
}

anydnn_status adn_cl_stream_create(anydnn_stream *stream, bool wrap, void *native)
{
    struct adn_cl_context *own = adn_cl_native(stream->context);
    cl_command_queue queue = native;
    cl_int code;
    if (wrap) {
        if (!queue) return adn_fail(ANYDNN_INVALID, "queue is NULL; accepted: a cl_command_queue");
        ADN_TRY(check_wrapped(own, queue));
        ADN_CL_TRY(ADN_CL_WRAP, adn_cl.RetainCommandQueue(queue));
    } else {
        const cl_bitfield properties = stream->context->device.info.is_cpu ? 0 : CL_QUEUE_PROFILING_ENABLE;
        queue = adn_cl.CreateCommandQueue(own->context, own->device, properties, &code);
        ADN_TRY(adn_cl_check(code, ADN_CL_ALLOC, "clCreateCommandQueue", NULL));
    }
    stream->native = queue;
    return ANYDNN_OK;
}

void adn_cl_stream_destroy(anydnn_stream *stream)
{
    adn_cl.Finish(adn_cl_queue(stream));
    adn_cl.ReleaseCommandQueue(adn_cl_queue(stream));
    stream->native = NULL;
}

anydnn_status adn_cl_stream_sync(anydnn_stream *stream)
{
    ADN_CL_TRY(ADN_CL_ENQUEUE, adn_cl.Finish(adn_cl_queue(stream)));
    return ANYDNN_OK;
}

/* ---- Events. ---- */

/* A recorded point. The driver's callback may come after the event has been recorded again or destroyed, so the point
 * is counted; the cl_event is released by the event's side alone. */
struct point {
    int references; /* under the lock of stamps, as the rest but `native` */
    cl_event native;
    bool stamped;
    int64_t time_ns; /* host time of completion; -1 = unknown */
    cl_int refused;  /* why no callback could be set; written before anybody sees the point */
};

struct adn_cl_event {
    adn_mutex *lock; /* guards `point` */
    struct point *point;
};

/* Of all contexts, since a callback may outlive its own. Made by the first event for which there is memory. */
struct stamps {
    adn_mutex *lock;
    adn_condition *done;
};
static _Atomic(struct stamps *) stamps;

static bool stamps_ready(void)
{
    struct stamps *made, *none = NULL;
    if (atomic_load(&stamps)) return true;
    made = calloc(1, sizeof *made);
    if (!made) return false;
    made->lock = adn_mutex_create();
    made->done = adn_condition_create();
    if (made->lock && made->done && atomic_compare_exchange_strong(&stamps, &none, made)) return true;
    adn_condition_destroy(made->done);
    adn_mutex_destroy(made->lock);
    free(made);
    return none != NULL;
}

static void stamps_lock(void)
{
    adn_mutex_lock(atomic_load(&stamps)->lock);
}

static void stamps_unlock(void)
{
    adn_mutex_unlock(atomic_load(&stamps)->lock);
}

static void point_unref(struct point *point)
{
    bool last;
    stamps_lock();
    last = --point->references == 0;
    stamps_unlock();
    if (last) free(point);
}

static void stamp(struct point *point, int64_t time_ns)
{
    stamps_lock();
    point->stamped = true;
    point->time_ns = time_ns;
    adn_condition_signal_all(atomic_load(&stamps)->done);
    stamps_unlock();
    point_unref(point);
}

static void ADN_CL_CALL completed(cl_event native, cl_int status, void *user)
{
    (void)native;
    stamp(user, status < 0 ? -1 : adn_time_ns());
}

/* The event's current point with a reference of the caller's on both sides. */
static anydnn_status point_take(struct adn_cl_event *own, struct point **point)
{
    anydnn_status status = ANYDNN_OK;
    adn_mutex_lock(own->lock);
    *point = own->point;
    if (*point) status = adn_cl_check(adn_cl.RetainEvent((*point)->native), ADN_CL_ENQUEUE, "clRetainEvent", NULL);
    if (*point && status == ANYDNN_OK) {
        stamps_lock();
        (*point)->references++;
        stamps_unlock();
    }
    adn_mutex_unlock(own->lock);
    return *point ? status : adn_fail(ANYDNN_INVALID, "event was never recorded; accepted: an event after anydnn_event_record");
}

static void point_release(struct point *point)
{
    if (!point) return;
    adn_cl.ReleaseEvent(point->native);
    point_unref(point);
}

anydnn_status adn_cl_event_create(anydnn_event *event)
{
    struct adn_cl_event *own = calloc(1, sizeof *own);
    if (own && stamps_ready()) own->lock = adn_mutex_create();
    if (!own || !own->lock) {
        free(own);
        return adn_fail(ANYDNN_OUT_OF_MEMORY, "no host memory for an event");
    }
    event->native = own;
    return ANYDNN_OK;
}

void adn_cl_event_destroy(anydnn_event *event)
{
    struct adn_cl_event *own = event->native;
    point_release(own->point);
    adn_mutex_destroy(own->lock);
    free(own);
    event->native = NULL;
}

anydnn_status adn_cl_event_record(anydnn_event *event, anydnn_stream *stream)
{
    struct adn_cl_event *own = event->native;
    struct point *point = calloc(1, sizeof *point), *old;
    anydnn_status status;
    if (!point) return adn_fail(ANYDNN_OUT_OF_MEMORY, "no host memory for an event");
    status = adn_cl_check(adn_cl.EnqueueMarkerWithWaitList(adn_cl_queue(stream), 0, NULL, &point->native),
                          ADN_CL_ENQUEUE, "clEnqueueMarkerWithWaitList", NULL);
    if (status != ANYDNN_OK) {
        free(point);
        return status;
    }
    point->references = 2; /* the event's and the callback's */
    point->refused = adn_cl.SetEventCallback(point->native, CL_COMPLETE, completed, point);
    if (point->refused != CL_SUCCESS) stamp(point, -1);
    /* Another queue, or the host, may wait for it. */
    adn_cl.Flush(adn_cl_queue(stream));
    adn_mutex_lock(own->lock);
    old = own->point;
    own->point = point;
    adn_mutex_unlock(own->lock);
    point_release(old);
    return ANYDNN_OK;
}

static anydnn_status wait_for(struct adn_cl_event *own, struct point **point)
{
    anydnn_status status;
    ADN_TRY(point_take(own, point));
    status = adn_cl_check(adn_cl.WaitForEvents(1, &(*point)->native), ADN_CL_ENQUEUE, "clWaitForEvents", NULL);
    if (status == ANYDNN_OK) return ANYDNN_OK;
    point_release(*point);
    return status;
}

anydnn_status adn_cl_event_sync(anydnn_event *event)
{
    struct point *point;
    ADN_TRY(wait_for(event->native, &point));
    point_release(point);
    return ANYDNN_OK;
}

anydnn_status adn_cl_stream_wait(anydnn_stream *stream, anydnn_event *event)
{
    struct point *point;
    anydnn_status status;
    ADN_TRY(point_take(event->native, &point));
    status = adn_cl_check(adn_cl.EnqueueBarrierWithWaitList(adn_cl_queue(stream), 1, &point->native, NULL),
                          ADN_CL_ENQUEUE, "clEnqueueBarrierWithWaitList", NULL);
    point_release(point);
    return status;
}

static int64_t host_time(struct point *point)
{
    int64_t time_ns;
    stamps_lock();
    while (!point->stamped) adn_condition_wait(atomic_load(&stamps)->done, atomic_load(&stamps)->lock);
    time_ns = point->time_ns;
    stamps_unlock();
    return time_ns;
}

static bool device_time(const struct point *point, cl_ulong *time_ns)
{
    return adn_cl.GetEventProfilingInfo(point->native, CL_PROFILING_COMMAND_END, sizeof *time_ns, time_ns, NULL) ==
           CL_SUCCESS;
}

static anydnn_status between(struct point *start, struct point *end, double *nanoseconds)
{
    cl_ulong from = 0, to = 0;
    int64_t host_from, host_to;
    /* Some drivers report equal or zero times: that is no timer. */
    if (device_time(start, &from) && device_time(end, &to) && from != 0 && to > from) {
        *nanoseconds = (double)(to - from);
        return ANYDNN_OK;
    }
    ADN_TRY(adn_cl_check(start->refused, ADN_CL_ENQUEUE, "clSetEventCallback", NULL));
    ADN_TRY(adn_cl_check(end->refused, ADN_CL_ENQUEUE, "clSetEventCallback", NULL));
    host_from = host_time(start);
    host_to = host_time(end);
    if (host_from < 0 || host_to < 0) return adn_fail(ANYDNN_DEVICE, "the driver reported no completion of an event");
    *nanoseconds = (double)(host_to - host_from);
    return ANYDNN_OK;
}

anydnn_status adn_cl_event_elapsed(anydnn_event *start, anydnn_event *end, double *nanoseconds)
{
    struct point *first, *second;
    anydnn_status status;
    ADN_TRY(wait_for(start->native, &first));
    status = wait_for(end->native, &second);
    if (status == ANYDNN_OK) {
        status = between(first, second, nanoseconds);
        point_release(second);
    }
    point_release(first);
    return status;
}
