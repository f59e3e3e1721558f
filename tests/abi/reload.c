/* SPDX-License-Identifier: Apache-2.0
 * tests/abi/reload.c [DEVICE]: the library loaded by dlopen, used on the CPU or the device named, and unloaded, twenty
 * times: each time it works, and each time it is gone afterwards. Not linked with it: every function comes from dlsym.
 * Sanitizers lose the names and shadows of what is unloaded: there the library is loaded and used, but stays.
 * Limits: POSIX. ANYDNN_LIBRARY is the path of the shared library. */
#include "../unit/unit.h"
#include "sanitized.h"

#include <anydnn/anydnn.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

enum { TIMES = 20, UNLOADS = !ADDRESS_SANITIZED && !THREAD_SANITIZED };

struct functions {
    const char *(*message)(void);
    anydnn_status (*open)(const char *, const anydnn_open_options *, anydnn_context **);
    void (*close)(anydnn_context *);
    anydnn_status (*stream_create)(anydnn_context *, uint64_t, anydnn_stream **);
    void (*stream_destroy)(anydnn_stream *);
    anydnn_status (*stream_sync)(anydnn_stream *);
    anydnn_status (*alloc)(anydnn_context *, uint64_t, anydnn_mem *);
    anydnn_status (*free)(anydnn_context *, anydnn_mem);
    anydnn_status (*copy_in)(anydnn_stream *, anydnn_mem, const void *, uint64_t);
    anydnn_status (*copy_out)(anydnn_stream *, void *, anydnn_mem, uint64_t);
    anydnn_status (*run)(anydnn_stream *, const anydnn_op *, const anydnn_prefs *, const anydnn_binding *, int);
};

/* POSIX makes a function of dlsym's object pointer; ISO C has no cast for it. */
static bool take(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool take_all(void *library, struct functions *f)
{
    return take(library, "anydnn_message", &f->message) && take(library, "anydnn_open", &f->open) &&
           take(library, "anydnn_close", &f->close) && take(library, "anydnn_stream_create", &f->stream_create) &&
           take(library, "anydnn_stream_destroy", &f->stream_destroy) &&
           take(library, "anydnn_stream_sync", &f->stream_sync) && take(library, "anydnn_alloc", &f->alloc) &&
           take(library, "anydnn_free", &f->free) && take(library, "anydnn_copy_in", &f->copy_in) &&
           take(library, "anydnn_copy_out", &f->copy_out) && take(library, "anydnn_run", &f->run);
}

/* relu of a few numbers that are exact everywhere. */
static bool relu(const struct functions *f, anydnn_context *context)
{
    const float x[4] = { -1.5f, 2.0f, -0.0f, 0.25f };
    const anydnn_tensor t = anydnn_tensor_1d(ANYDNN_F32, 4);
    const anydnn_activation op = anydnn_activation_init();
    anydnn_stream *stream;
    anydnn_mem mem;
    anydnn_binding rows[2];
    float y[4] = { 9, 9, 9, 9 };
    bool good;
    if (f->stream_create(context, 0, &stream) != ANYDNN_OK || f->alloc(context, 1024, &mem) != ANYDNN_OK) return false;
    rows[0] = anydnn_bind(ANYDNN_X, &t, mem);
    rows[1] = anydnn_bind(ANYDNN_Y, &t, anydnn_mem_at(mem, 512));
    good = f->copy_in(stream, rows[0].mem, x, sizeof x) == ANYDNN_OK &&
           f->run(stream, (const anydnn_op *)&op, NULL, rows, 2) == ANYDNN_OK &&
           f->copy_out(stream, y, rows[1].mem, sizeof y) == ANYDNN_OK && f->stream_sync(stream) == ANYDNN_OK &&
           y[0] == 0 && y[1] == 2 && y[2] == 0 && y[3] == 0.25f;
    f->stream_destroy(stream);
    return f->free(context, mem) == ANYDNN_OK && good;
}

int main(int argc, char **argv)
{
    const char *device = argc > 1 ? argv[1] : "cpu";
    int i;
    for (i = 0; i < TIMES; i++) {
        void *library = dlopen(ANYDNN_LIBRARY, RTLD_NOW | RTLD_LOCAL);
        struct functions f;
        anydnn_context *context = NULL;
        anydnn_status status;
        memset(&f, 0, sizeof f);
        CHECK(library != NULL && take_all(library, &f));
        if (unit_failed) return unit_end();
        status = f.open(device, NULL, &context);
        if (status == ANYDNN_UNSUPPORTED) {
            printf("skipped: no %s here: %s\n", device, f.message());
            return 77;
        }
        CHECK(status == ANYDNN_OK && relu(&f, context));
        if (unit_failed) printf("  %s\n", f.message());
        f.close(context);
        if (!UNLOADS) continue;
        CHECK(dlclose(library) == 0);
        CHECK(dlopen(ANYDNN_LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD) == NULL);
    }
    return unit_end();
}
