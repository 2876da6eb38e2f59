#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char message[512];
static _Thread_local hl_status last = HL_OK;

hl_status status_set(hl_status code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    last = code;
    return code;
}

const char *status_message(void) { return message; }

hl_status hl_error_code(void) { return last; }
