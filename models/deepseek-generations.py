#!/usr/bin/env python3
"""Writes a deepseek2 file of today's form in an older one: deepseek-generations.py SOURCE kv_b|flat TARGET

kv_b  one tensor from the latent to keys and values, as the model was trained; as many KV heads as heads
flat  the same, and beside it what today's form has, with two dimensions
The weights are the same numbers, so a file's golden values hold for all forms. Only float files: blocks of
quantized weights run along rows, which are turned round here. Needs numpy and gguf from PyPI.
"""
import os
import sys

import gguf
import numpy as np

from requantize import copy_metadata, finish, new_writer

ARCH = "deepseek2."
MLA_KEYS = {ARCH + "attention.key_length_mla", ARCH + "attention.value_length_mla"}


def number(reader, key):
    return int(reader.fields[ARCH + key].contents())


def kv_b_of(k_b, v_b):
    """k_b [heads][latent][nope], v_b [heads][value][latent] -> [heads * (nope + value)][latent]."""
    rows = np.concatenate([k_b.transpose(0, 2, 1), v_b], axis=1)
    return np.ascontiguousarray(rows.reshape(-1, rows.shape[2]))


def main(source, form, target):
    reader = gguf.GGUFReader(source)
    tensors = {t.name: t.data for t in reader.tensors}
    replace = {
        ARCH + "attention.head_count_kv": number(reader, "attention.head_count"),
        ARCH + "attention.key_length": number(reader, "attention.key_length_mla"),
        ARCH + "attention.value_length": number(reader, "attention.value_length_mla"),
    }
    for key in MLA_KEYS:
        del reader.fields[key]
    part = target + ".tmp"
    writer = new_writer(reader, part)
    copy_metadata(reader, writer, replace)
    for name, data in tensors.items():
        if name.endswith("attn_k_b.weight"):
            v_b = tensors[name.replace("k_b", "v_b")]
            writer.add_tensor(name.replace("k_b", "kv_b"), kv_b_of(data, v_b))
        if name.endswith(("attn_k_b.weight", "attn_v_b.weight")):
            if form == "kv_b":
                continue
            data = data.reshape(-1, data.shape[2])
        writer.add_tensor(name, data)
    finish(writer)
    os.replace(part, target)


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[2] not in ("kv_b", "flat"):
        sys.exit(__doc__)
    main(*sys.argv[1:])
