#!/usr/bin/env python3
"""Writes a Llama of the shape of Llama 3.2 1B with random Q4_0 weights: random_llama.py TOKENIZER_SOURCE TARGET

It says nothing sensible; it is as large and as slow as a model of its shape. The tokenizer is copied from another file.
"""
import os
import sys

import gguf
import numpy as np

from requantize import copy_metadata, finish, new_writer

N_LAYER, N_EMBD, N_FF, N_HEAD, N_HEAD_KV, D_HEAD = 16, 2048, 8192, 32, 8, 64
SHAPE = {
    "llama.block_count": N_LAYER,
    "llama.embedding_length": N_EMBD,
    "llama.feed_forward_length": N_FF,
    "llama.attention.head_count": N_HEAD,
    "llama.attention.head_count_kv": N_HEAD_KV,
    "llama.rope.dimension_count": D_HEAD,
    "llama.context_length": 8192,
    "general.name": "random llama 1b",
    "general.file_type": int(gguf.LlamaFileType.MOSTLY_Q4_0),
}
BLOCK = 32  # weights of a Q4_0 block: f16 scale, then 16 bytes of codes
CODE_DEVIATION = 4.6  # of codes 0 .. 15, all as likely


def matrix(random, rows, columns):
    """Random Q4_0 blocks [rows][columns / 32 * 18] with weights of variance 1 / columns."""
    blocks = random.integers(0, 256, (rows, columns // BLOCK, 18), dtype=np.uint8)
    scale = np.array([1 / (CODE_DEVIATION * np.sqrt(columns))], dtype=np.float16)
    blocks[:, :, :2] = scale.view(np.uint8)
    return blocks.reshape(rows, -1)


def main(source, target):
    reader = gguf.GGUFReader(source)
    n_vocab = len(reader.get_field("tokenizer.ggml.tokens").data)
    random = np.random.default_rng(1)
    part = target + ".tmp"
    writer = new_writer(reader, part)
    copy_metadata(reader, writer, SHAPE)

    def add(name, rows, columns):
        writer.add_tensor(name, matrix(random, rows, columns), raw_dtype=gguf.GGMLQuantizationType.Q4_0)

    def add_norm(name):
        writer.add_tensor(name, np.ones(N_EMBD, dtype=np.float32))

    add("token_embd.weight", n_vocab, N_EMBD)
    for layer in range(N_LAYER):
        block = f"blk.{layer}."
        add_norm(block + "attn_norm.weight")
        add(block + "attn_q.weight", N_HEAD * D_HEAD, N_EMBD)
        add(block + "attn_k.weight", N_HEAD_KV * D_HEAD, N_EMBD)
        add(block + "attn_v.weight", N_HEAD_KV * D_HEAD, N_EMBD)
        add(block + "attn_output.weight", N_EMBD, N_HEAD * D_HEAD)
        add_norm(block + "ffn_norm.weight")
        add(block + "ffn_gate.weight", N_FF, N_EMBD)
        add(block + "ffn_up.weight", N_FF, N_EMBD)
        add(block + "ffn_down.weight", N_EMBD, N_FF)
    add_norm("output_norm.weight")
    finish(writer)
    os.replace(part, target)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
