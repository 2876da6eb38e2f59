#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char message[512];

hl_status status_set(hl_status code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return code;
}

const char *status_message(void) {
    return message;
}
