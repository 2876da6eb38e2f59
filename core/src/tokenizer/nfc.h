/* Unicode normalization form C. Source: UAX #15, and chapter 3.12 of the standard for Hangul. */
#ifndef HL_TOKENIZER_NFC_H
#define HL_TOKENIZER_NFC_H

#include "base/mem.h"
#include "base/status.h"

struct nfc;

/* Unpacks the tables (some 50 KB, MEM_TOKENIZER); NULL when there is no memory. */
struct nfc *nfc_new(struct mem *mem);
void nfc_free(struct nfc *f);

/* Composes s: [n], valid UTF-8 but for bytes that stay as they are. *out points at s when that is composed
 * already, else at memory of f that is good until the next call. HL_EMEMORY. */
hl_status nfc_compose(struct nfc *f, const uint8_t *s, size_t n, const uint8_t **out, size_t *n_out);

#endif
