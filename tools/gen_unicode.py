#!/usr/bin/env python3
"""Writes core/src/tokenizer/unicode_table.h: what tokenizers must know of Unicode, in compact tables.

    python3 -m pip install unicodedata2==16.0.0
    python3 tools/gen_unicode.py > core/src/tokenizer/unicode_table.h

Unicode 16 is what Oniguruma in Hugging Face tokenizers 0.23 knows; older tables split some newer scripts differently.
"""

import unicodedata2 as ucd

# In the order of enum unicode_class in unicode.h. Everything else (separators, control, unassigned) is 0.
CLASSES = {"L": 1, "N": 2, "P": 3, "S": 4, "M": 5}
CODE_POINTS = 0x110000


def class_runs():
    """Run starts with their class, as start << 3 | class."""
    runs = []
    last = None
    for cp in range(CODE_POINTS):
        c = CLASSES.get(ucd.category(chr(cp))[0], 0)
        if c != last:
            runs.append(cp << 3 | c)
            last = c
    return runs


def case_of(cp):
    """enum unicode_case: 1 for upper and title case letters, 2 for lower case ones."""
    return {"Lu": 1, "Lt": 1, "Ll": 2}.get(ucd.category(chr(cp)), 0)


def case_runs():
    """Run starts with their case, as start << 2 | case; 3: upper and lower in turn, upper first."""
    cases = [case_of(cp) for cp in range(CODE_POINTS)]
    runs, at = [], 0
    while at < CODE_POINTS:
        end, turns = at, at
        while end < CODE_POINTS and cases[end] == cases[at]:
            end += 1
        while turns < CODE_POINTS and cases[turns] == 1 + (turns - at) % 2:
            turns += 1
        in_turn = turns - at > max(end - at, 2)
        runs.append(at << 2 | (3 if in_turn else cases[at]))
        at = turns if in_turn else end
    return runs


def combining_runs():
    """(first, count, class) of code points that share a canonical combining class above 0."""
    runs = []
    for cp in range(CODE_POINTS):
        c = ucd.combining(chr(cp))
        if c and runs and runs[-1][2] == c and runs[-1][0] + runs[-1][1] == cp:
            runs[-1][1] += 1
        elif c:
            runs.append([cp, 1, c])
    return runs


def decompositions():
    """(cp, first, second, composes): canonical decompositions, one step; second 0 for singletons. Hangul is arithmetic."""
    out = []
    for cp in range(CODE_POINTS):
        text = ucd.decomposition(chr(cp))
        if not text or text.startswith("<"):
            continue
        parts = [int(p, 16) for p in text.split()]
        composes = len(parts) == 2 and ucd.normalize("NFC", chr(cp)) == chr(cp)
        out.append((cp, parts[0], parts[1] if len(parts) == 2 else 0, composes))
    return out


def varint(n):
    """Seven bits a byte, lowest first, the top bit set on all but the last."""
    out = []
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return out + [n]


def zigzag(n):
    return n << 1 if n >= 0 else (-n << 1) - 1


def combining_stream():
    out, at = [], 0
    for first, count, c in combining_runs():
        out += varint(first - at) + varint(count) + [c]
        at = first + count
    return out


def decomposition_stream():
    """Each entry: cp minus the last one, doubled, plus composes; then the distances of first and second from the last ones."""
    out, at, a, b = [], 0, 0, 0
    for cp, first, second, composes in decompositions():
        out += varint((cp - at) << 1 | composes) + varint(zigzag(first - a)) + varint(zigzag(second - b))
        at, a, b = cp, first, second
    return out


def emit(declaration, values, form):
    print(f"{declaration}[{len(values)}] = {{")
    line = "   "
    for v in values:
        word = f" {form.format(v)},"
        if len(line) + len(word) > 110:
            print(line)
            line = "   "
        line += word
    print(line)
    print("};\n")


print(f"/* Made by tools/gen_unicode.py from Unicode {ucd.unidata_version}. */")
print("#ifndef HL_TOKENIZER_UNICODE_TABLE_H\n#define HL_TOKENIZER_UNICODE_TABLE_H\n\n#include <stdint.h>\n")
print("/* Where a new class begins: code point << 3 | enum unicode_class. */")
emit("static const uint32_t class_runs", class_runs(), "0x{:x}")
print("/* Where a new case begins: code point << 2 | enum unicode_case, or 3: upper and lower in turn, upper first. */")
emit("static const uint32_t case_runs", case_runs(), "0x{:x}")
print(f"enum {{ N_DECOMPOSITIONS = {len(decompositions())}, N_COMBINING_RUNS = {len(combining_runs())} }};\n")
print("/* Runs of a combining class: varint gap since the last run's end, varint count, the class. */")
emit("static const uint8_t combining_stream", combining_stream(), "{}")
print("/* Canonical decompositions: varint (distance << 1 | composes), then both parts as zigzag varint distances. */")
emit("static const uint8_t decomposition_stream", decomposition_stream(), "{}")
print("#endif")
