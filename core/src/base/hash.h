/* FNV-1a, 64 bits: tells things apart and finds damage; it does not resist malice. Source: RFC 9923. */
#ifndef HL_BASE_HASH_H
#define HL_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_START 0xcbf29ce484222325u

/* Goes on from h, HASH_START for a new one. */
static inline uint64_t hash_bytes(uint64_t h, const void *bytes, size_t n) {
    for (size_t i = 0; i < n; i++) h = (h ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
    return h;
}

#endif
