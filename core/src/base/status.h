/* Errors: worded where the fact is known, passed up in one word. */
#ifndef HL_BASE_STATUS_H
#define HL_BASE_STATUS_H

#include "headlight.h"

/* Remembers the message (printf format) for hl_error() and returns code. */
hl_status status_set(hl_status code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The remembered message; "" when there is none. */
const char *status_message(void);

/* For data and arguments from outside; our own mistakes are asserts. */
#define CHECK(cond, code, ...)                                                                               \
    do {                                                                                                     \
        if (!(cond)) return status_set(code, __VA_ARGS__);                                                   \
    } while (0)

#define TRY(expr)                                                                                            \
    do {                                                                                                     \
        hl_status try_status = (expr);                                                                       \
        if (try_status != HL_OK) return try_status;                                                          \
    } while (0)

#endif
