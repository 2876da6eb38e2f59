#include "tokenizer/unicode.h"

#include <stdbool.h>
#include <stddef.h>

#include "tokenizer/unicode_table.h"

/* Source: PropList.txt of the Unicode character database; the list has not changed since version 6.3. */
static bool is_space(uint32_t cp) {
    if (cp < 0x80) return cp == ' ' || (cp >= 9 && cp <= 13);
    return cp == 0x85 || cp == 0xa0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 ||
           cp == 0x2029 || cp == 0x202f || cp == 0x205f || cp == 0x3000;
}

/* The run that cp is in: the last one of runs [n] that does not begin behind it; the low `bits` are no part of
 * the code point. */
static uint32_t run_of(const uint32_t *runs, size_t n, int bits, uint32_t cp) {
    size_t lo = 0, hi = n;
    while (hi - lo > 1) {
        size_t mid = (lo + hi) / 2;
        if (runs[mid] >> bits <= cp) lo = mid;
        else hi = mid;
    }
    return runs[lo];
}

enum unicode_class unicode_class_of(uint32_t cp) {
    if ((cp | 0x20) - 'a' < 26) return UC_LETTER;
    uint32_t run = run_of(class_runs, sizeof class_runs / sizeof class_runs[0], 3, cp);
    enum unicode_class c = (enum unicode_class)(run & 7);
    return c == UC_OTHER && is_space(cp) ? UC_SPACE : c;
}

enum unicode_case unicode_case_of(uint32_t cp) {
    uint32_t run = run_of(case_runs, sizeof case_runs / sizeof case_runs[0], 2, cp);
    if ((run & 3) < 3) return (enum unicode_case)(run & 3);
    return (cp - (run >> 2)) % 2 == 0 ? CASE_UPPER : CASE_LOWER;
}
