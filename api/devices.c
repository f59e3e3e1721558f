/* SPDX-License-Identifier: Apache-2.0
 * api/devices.c: the list of devices. */
#include "common/os.h"
#include "internal.h"

#include <stdio.h>
#include <string.h>

enum { MAX_DEVICES = 64, MAX_BACKENDS = 4 };
static struct adn_device devices[MAX_DEVICES];
static int device_count;
static int list_forks; /* adn_fork_count() as the drivers were opened */
static char notes[MAX_BACKENDS][256];
static bool oracle_wanted;
static char tuning_path[4096];

static void probe_backend(int index)
{
    const struct adn_backend *backend = adn_backends[index];
    int found, i;
    if (backend->abi != ADN_BACKEND_ABI) {
        snprintf(notes[index], sizeof notes[index], "built against another version of the backend contract");
        return;
    }
    found = backend->probe(devices + device_count, MAX_DEVICES - device_count, notes[index], sizeof notes[index]);
    for (i = 0; i < found; i++) {
        struct adn_device *device = &devices[device_count++];
        device->backend = backend;
        device->info.struct_size = (uint32_t)sizeof device->info;
        device->info.backend = backend->id;
        if (backend->id == ANYDNN_BACKEND_CPU) snprintf(device->info.id, sizeof device->info.id, "%s", backend->name);
        else snprintf(device->info.id, sizeof device->info.id, "%s:%d", backend->name, i);
    }
}

static void build_list(void)
{
    const char *tuning = adn_environment("ANYDNN_TUNING");
    const char *oracle = adn_environment("ANYDNN_ORACLE");
    int i;
    device_count = 0; /* a child may begin again */
    list_forks = adn_fork_count();
    oracle_wanted = oracle && strcmp(oracle, "1") == 0;
    if (tuning && strlen(tuning) < sizeof tuning_path) strcpy(tuning_path, tuning);
    for (i = 0; adn_backends[i] && i < MAX_BACKENDS; i++) probe_backend(i);
}

const struct adn_device *adn_devices(int *count)
{
    static adn_once once;
    adn_run_once(&once, build_list);
    *count = device_count;
    return devices;
}

anydnn_status adn_check_driver(const struct adn_backend *backend)
{
    int count;
    adn_devices(&count);
    if (backend->id == ANYDNN_BACKEND_CPU || list_forks == adn_fork_count()) return ANYDNN_OK;
    return adn_fail(ANYDNN_UNSUPPORTED, "%s: its driver was opened before fork() and does not work in a child; accepted: cpu, "
                    "or this library used after fork() only", backend->name);
}

const char *adn_tuning_path(void)
{
    int count;
    adn_devices(&count);
    return tuning_path;
}

bool adn_oracle_wanted(void)
{
    int count;
    adn_devices(&count);
    return oracle_wanted;
}

int anydnn_device_count(void)
{
    int count;
    adn_devices(&count);
    return count;
}

static anydnn_status give_info(const anydnn_device_info *from, anydnn_device_info *info)
{
    const uint32_t size = info->struct_size;
    if (size < 8)
        return adn_fail(ANYDNN_INVALID, "info: struct_size is %u; accepted: sizeof(anydnn_device_info)", size);
    memcpy(info, from, size < sizeof *from ? size : sizeof *from);
    info->struct_size = size;
    return ANYDNN_OK;
}

anydnn_status anydnn_device_get(int index, anydnn_device_info *info)
{
    int count;
    const struct adn_device *list = adn_devices(&count);
    ADN_NOT_NULL(info);
    if (index < 0 || index >= count)
        return adn_fail(ANYDNN_INVALID, "index is %d; accepted: 0 to %d", index, count - 1);
    return give_info(&list[index].info, info);
}

anydnn_status anydnn_context_info(const anydnn_context *context, anydnn_device_info *info)
{
    ADN_NOT_NULL(context);
    ADN_NOT_NULL(info);
    return give_info(&context->device.info, info);
}

const char *anydnn_backend_note(int backend)
{
    int count, i;
    adn_devices(&count);
    for (i = 0; adn_backends[i] && i < MAX_BACKENDS; i++)
        if (adn_backends[i]->id == backend) return notes[i];
    return backend >= ANYDNN_BACKEND_CPU && backend <= ANYDNN_BACKEND_OPENCL ? "not in this build" : "";
}
