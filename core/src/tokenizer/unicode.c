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

enum unicode_class unicode_class_of(uint32_t cp) {
    if ((cp | 0x20) - 'a' < 26) return UC_LETTER;
    size_t lo = 0, hi = sizeof class_runs / sizeof class_runs[0];
    while (hi - lo > 1) {
        size_t mid = (lo + hi) / 2;
        if (class_runs[mid] >> 3 <= cp) lo = mid;
        else hi = mid;
    }
    enum unicode_class c = (enum unicode_class)(class_runs[lo] & 7);
    return c == UC_OTHER && is_space(cp) ? UC_SPACE : c;
}
