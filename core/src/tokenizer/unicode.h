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

/* Lu and Lt, Ll; everything else, other letters too, has none. */
enum unicode_case { CASE_NONE, CASE_UPPER, CASE_LOWER };

enum unicode_case unicode_case_of(uint32_t cp);

#endif
