/* SPDX-License-Identifier: Apache-2.0
 * common/status.c: statuses, and the message of each thread. */
#include "status.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char message[2048];
static _Thread_local int64_t native_error;

static anydnn_status set(anydnn_status status, int64_t code, const char *format, va_list arguments)
{
    /* Formatted aside first: an argument may be the current message. */
    char text[sizeof message];
    vsnprintf(text, sizeof text, format, arguments);
    snprintf(message, sizeof message, "%s", text);
    native_error = code;
    return status;
}

anydnn_status adn_fail(anydnn_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    set(status, 0, format, arguments);
    va_end(arguments);
    return status;
}

anydnn_status adn_fail_native(anydnn_status status, int64_t code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    set(status, code, format, arguments);
    va_end(arguments);
    return status;
}

const char *anydnn_message(void) { return message; }
int64_t anydnn_native_error(void) { return native_error; }
int anydnn_version(void) { return ANYDNN_VERSION; }

const char *anydnn_status_name(anydnn_status status)
{
    static const char *const names[] = { "OK", "INVALID", "UNSUPPORTED", "OUT_OF_MEMORY", "DEVICE", "INTERNAL" };
    return (unsigned)status < sizeof names / sizeof names[0] ? names[status] : "unknown status";
}
