#!/usr/bin/env python3
"""Writes a model of random Q4_0 weights, of a known model's shape: random_model.py SHAPE TOKENIZER_SOURCE TARGET [LAYERS]

It says nothing sensible; it is as large and as slow as a model of its shape. The tokenizer is copied from another file,
a byte-level BPE one. Shapes:

  llama-1b  Llama 3.2 1B, 16 layers
  mla       MiniCPM3-4B: multi-head latent attention; 2 of its 62 layers
  gqa       a Llama with layers of the same size, and 8 cached heads for 40 query heads; 2 layers

Of the vocabulary as many tokens are kept as make the output matrix's share of all weights what it is in the whole model.
"""
import os
import sys

import gguf
import numpy as np

from requantize import copy_metadata, finish

LAYERS_OF_MINICPM3, VOCABULARY_OF_MINICPM3 = 62, 73448
BLOCK = 32  # weights of a Q4_0 block: f16 scale, then 16 bytes of codes
CODE_DEVIATION = 4.6  # of codes 0 .. 15, all as likely
TOKENIZER = "tokenizer."


def matrix(random, rows, columns):
    """Random Q4_0 blocks [rows][columns / 32 * 18] with weights of variance 1 / columns."""
    blocks = random.integers(0, 256, (rows, columns // BLOCK, 18), dtype=np.uint8)
    scale = np.array([1 / (CODE_DEVIATION * np.sqrt(columns))], dtype=np.float16)
    blocks[:, :, :2] = scale.view(np.uint8)
    return blocks.reshape(rows, -1)


class Shape:
    """Matrices {name: (rows, columns)} and norms {name: columns} of a layer, and metadata."""

    def __init__(self, arch, layers, n_embd, n_ff, n_head, vocabulary=None):
        self.arch, self.layers, self.n_embd, self.vocabulary = arch, layers, n_embd, vocabulary
        self.whole = {}
        self.norms = {"attn_norm": n_embd, "ffn_norm": n_embd}
        self.matrices = {"ffn_gate": (n_ff, n_embd), "ffn_up": (n_ff, n_embd), "ffn_down": (n_embd, n_ff)}
        self.metadata = {
            "block_count": layers,
            "context_length": 8192,
            "embedding_length": n_embd,
            "feed_forward_length": n_ff,
            "attention.head_count": n_head,
            "attention.head_count_kv": n_head,
            "attention.layer_norm_rms_epsilon": 1e-5,
            "rope.freq_base": 10000.0,
        }

    def gqa(self, n_head, n_head_kv, d_head):
        self.metadata |= {"attention.head_count_kv": n_head_kv, "rope.dimension_count": d_head}
        self.matrices |= {
            "attn_q": (n_head * d_head, self.n_embd),
            "attn_k": (n_head_kv * d_head, self.n_embd),
            "attn_v": (n_head_kv * d_head, self.n_embd),
            "attn_output": (self.n_embd, n_head * d_head),
        }
        return self

    def mla(self, n_head, q_lora, kv_lora, d_nope, d_rope, d_v):
        self.metadata |= {
            "attention.q_lora_rank": q_lora,
            "attention.kv_lora_rank": kv_lora,
            "attention.key_length": d_nope + d_rope,
            "attention.value_length": d_v,
            "rope.dimension_count": d_rope,
        }
        self.norms |= {"attn_q_a_norm": q_lora, "attn_kv_a_norm": kv_lora}
        self.matrices |= {
            "attn_q_a": (q_lora, self.n_embd),
            "attn_q_b": (n_head * (d_nope + d_rope), q_lora),
            "attn_kv_a_mqa": (kv_lora + d_rope, self.n_embd),
            "attn_kv_b": (n_head * (d_nope + d_v), kv_lora),
            "attn_output": (self.n_embd, n_head * d_v),
        }
        # Factors of 1 for both ranges of positions: rotation as without them.
        self.whole |= {f"rope_factors_{name}.weight": np.ones(d_rope // 2, np.float32) for name in ("long", "short")}
        return self


def shape_of(name, layers):
    if name == "llama-1b":
        return Shape("llama", layers or 16, 2048, 8192, 32).gqa(32, 8, 64)
    layers = layers or 2
    vocabulary = VOCABULARY_OF_MINICPM3 * layers // LAYERS_OF_MINICPM3
    if name == "mla":
        return Shape("minicpm3", layers, 2560, 6400, 40, vocabulary).mla(40, 768, 256, 64, 32, 64)
    if name == "gqa":
        return Shape("llama", layers, 2560, 6400, 40, vocabulary).gqa(40, 8, 64)
    sys.exit(__doc__)


def smaller_vocabulary(reader, n):
    """Entries that replace the tokenizer's for its first n tokens: a BPE vocabulary holds its merges in order."""
    names = [TOKENIZER + "ggml." + name for name in ("tokens", "token_type", "merges")]
    tokens, kinds, merges = (reader.get_field(name).contents() for name in names)
    kept = set(tokens[:n])
    merges = [merge for merge in merges if {*merge.split(" "), merge.replace(" ", "")} <= kept]
    return dict(zip(names, (tokens[:n], kinds[:n], merges)))


def write_metadata(reader, writer, shape, name, n_vocab):
    for key, value in shape.metadata.items():
        add = writer.add_float32 if isinstance(value, float) else writer.add_uint32
        add(f"{shape.arch}.{key}", value)
    writer.add_uint32(f"{shape.arch}.vocab_size", n_vocab)
    writer.add_name(f"random {name}, {shape.layers} layers")
    writer.add_file_type(int(gguf.LlamaFileType.MOSTLY_Q4_0))
    copy_metadata(reader, writer, smaller_vocabulary(reader, n_vocab), only=TOKENIZER)


def main(name, source, target, layers=None):
    shape = shape_of(name, int(layers) if layers else None)
    reader = gguf.GGUFReader(source)
    n_vocab = shape.vocabulary or len(reader.get_field(TOKENIZER + "ggml.tokens").data)
    random = np.random.default_rng(1)
    part = target + ".tmp"
    writer = gguf.GGUFWriter(part, shape.arch)
    write_metadata(reader, writer, shape, name, n_vocab)

    def add(tensor, rows, columns):
        writer.add_tensor(tensor, matrix(random, rows, columns), raw_dtype=gguf.GGMLQuantizationType.Q4_0)

    add("token_embd.weight", n_vocab, shape.n_embd)
    for tensor, values in shape.whole.items():
        writer.add_tensor(tensor, values)
    for layer in range(shape.layers):
        for tensor, columns in shape.norms.items():
            writer.add_tensor(f"blk.{layer}.{tensor}.weight", np.ones(columns, dtype=np.float32))
        for tensor, (rows, columns) in shape.matrices.items():
            add(f"blk.{layer}.{tensor}.weight", rows, columns)
    writer.add_tensor("output_norm.weight", np.ones(shape.n_embd, dtype=np.float32))
    finish(writer)
    os.replace(part, target)


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    main(*sys.argv[1:])
