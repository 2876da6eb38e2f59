/* What the pre-tokenizers ask of a character. */
#ifndef HL_TOKENIZER_UNICODE_H
#define HL_TOKENIZER_UNICODE_H

#include <stdint.h>

/* General categories by their first letter; white space (the property White_Space, \s in the patterns) is
 * taken out of the separators and controls. Unassigned, control, format and private characters are
 * UC_OTHER. */
enum unicode_class {
    UC_OTHER,
    UC_LETTER,
    UC_NUMBER,
    UC_PUNCTUATION,
    UC_SYMBOL,
    UC_MARK,
    UC_SPACE,
    UC_CLASSES
};

enum unicode_class unicode_class_of(uint32_t cp);

#endif
