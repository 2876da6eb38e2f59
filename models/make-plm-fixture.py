#!/usr/bin/env python3
"""Makes a tiny plm model from random numbers and its golden values: make-plm-fixture.py DIRECTORY

transformers has no plm, so the model is evaluated here, in float64, as its paper describes it: keys and values of
every head are made from the latent (nothing is absorbed), and the feed-forward part is down(relu(up)^2). The same code
runs the fixture deepseek_v2_mla in DIRECTORY first and must give transformers' logits for it. The second layer has no
norm of the latent. The vocabulary is that of the fixture qwen2 in DIRECTORY. Needs numpy and gguf from PyPI.
"""
import json
import os
import sys

import gguf
import numpy as np

N_LAYER, N_EMBD, N_HEAD, N_FF = 2, 40, 4, 48
D_NOPE, D_ROPE, D_VALUE, LATENT = 16, 8, 12, 20
BASE, EPS, N_CTX, N_TOKENS, N_GREEDY = 100000.0, 1e-6, 512, 28, 16


def read(path):
    """Keys without the architecture, and tensors by name."""
    reader = gguf.GGUFReader(path)
    arch = reader.fields["general.architecture"].contents()
    keys = {name.removeprefix(arch + "."): f.contents() for name, f in reader.fields.items()}
    return reader, keys, {t.name: t.data.astype(np.float64) for t in reader.tensors}


def rms(x, w, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w


def rotate(x, base):
    """Pairs (2 i, 2 i + 1) of x [positions][..][d] turn by position * base ** (-2 i / d)."""
    d = x.shape[-1]
    angles = np.arange(x.shape[0])[:, None] * base ** (-np.arange(0, d, 2) / d)
    shape = (x.shape[0],) + (1,) * (x.ndim - 2) + (d // 2,)
    cos, sin = np.cos(angles).reshape(shape), np.sin(angles).reshape(shape)
    a, b = x[..., 0::2], x[..., 1::2]
    return np.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(x.shape)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention(shape, w, x):
    """Of the normalised x [positions][n_embd]: the branch, and weights [head][query][key]."""
    heads, nope, rope, value, latent, base, eps = shape
    n = x.shape[0]
    q = (x @ w["attn_q.weight"].T).reshape(n, heads, nope + rope)
    row = x @ w["attn_kv_a_mqa.weight"].T
    c, k_rope = row[:, :latent], rotate(row[:, latent:], base)
    if "attn_kv_a_norm.weight" in w:
        c = rms(c, w["attn_kv_a_norm.weight"], eps)
    if "attn_kv_b.weight" in w:
        kv = (c @ w["attn_kv_b.weight"].T).reshape(n, heads, nope + value)
        k_nope, v = kv[..., :nope], kv[..., nope:]
    else:
        k_nope = np.einsum("nr,hrd->nhd", c, w["attn_k_b.weight"])
        v = np.einsum("nr,hdr->nhd", c, w["attn_v_b.weight"])
    k = np.concatenate([k_nope, np.repeat(k_rope[:, None], heads, 1)], -1)
    q = np.concatenate([q[..., :nope], rotate(q[..., nope:], base)], -1)
    scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(nope + rope)
    scores[:, np.triu(np.ones((n, n), bool), 1)] = -np.inf
    weights = softmax(scores)
    out = np.einsum("hqk,khd->qhd", weights, v).reshape(n, heads * value)
    return out @ w["attn_output.weight"].T, weights


def feed_forward(w, x):
    up = x @ w["ffn_up.weight"].T
    if "ffn_gate.weight" in w:
        gate = x @ w["ffn_gate.weight"].T
        return (gate / (1 + np.exp(-gate)) * up) @ w["ffn_down.weight"].T
    return np.maximum(up, 0) ** 2 @ w["ffn_down.weight"].T


def forward(shape, n_layer, tensors, tokens):
    """Logits [positions][n_vocab], weights of each layer, hidden states of the last position."""
    eps = shape[-1]
    x = tensors["token_embd.weight"][tokens]
    hidden, maps = {"embed": x[-1]}, []
    for l in range(n_layer):
        name = f"blk.{l}."
        w = {k.removeprefix(name): v for k, v in tensors.items() if k.startswith(name)}
        branch, weights = attention(shape, w, rms(x, w["attn_norm.weight"], eps))
        x = x + branch
        x = x + feed_forward(w, rms(x, w["ffn_norm.weight"], eps))
        hidden[f"layer_{l}"] = x[-1]
        maps.append(weights)
    x = rms(x, tensors["output_norm.weight"], eps)
    hidden["final_norm"] = x[-1]
    output = tensors.get("output.weight", tensors["token_embd.weight"])
    return x @ output.T, maps, hidden


def check_against_transformers(directory):
    path = os.path.join(directory, "deepseek_v2_mla")
    _, keys, tensors = read(path + ".gguf")
    with open(path + ".golden.json", encoding="utf-8") as f:
        golden = json.load(f)
    rope = keys["rope.dimension_count"]
    shape = (keys["attention.head_count"], keys["attention.key_length_mla"] - rope, rope,
             keys["attention.value_length_mla"], keys["attention.kv_lora_rank"], keys["rope.freq_base"],
             keys["attention.layer_norm_rms_epsilon"])
    logits, _, _ = forward(shape, keys["block_count"], tensors, golden["tokens"])
    off = np.abs(logits[-1] - golden["logits_last"]).max()
    print(f"deepseek_v2_mla: logits are within {off:.2g} of transformers")
    if not off < 1e-4:
        sys.exit("this code does not evaluate latent attention as transformers does")


def random_tensors(rng, n_vocab):
    def matrix(rows, columns, gain=1.0):
        return (rng.standard_normal((rows, columns)) * gain / np.sqrt(columns)).astype(np.float32)

    def norm(n):
        return (1 + 0.2 * rng.standard_normal(n)).astype(np.float32)

    t = {"token_embd.weight": rng.standard_normal((n_vocab, N_EMBD)).astype(np.float32) * np.float32(0.7)}
    for l in range(N_LAYER):
        b = f"blk.{l}."
        t[b + "attn_norm.weight"] = norm(N_EMBD)
        t[b + "attn_q.weight"] = matrix(N_HEAD * (D_NOPE + D_ROPE), N_EMBD, 1.6)
        t[b + "attn_kv_a_mqa.weight"] = matrix(LATENT + D_ROPE, N_EMBD, 1.6)
        if l == 0:
            t[b + "attn_kv_a_norm.weight"] = norm(LATENT)
        t[b + "attn_kv_b.weight"] = matrix(N_HEAD * (D_NOPE + D_VALUE), LATENT, 1.3)
        t[b + "attn_output.weight"] = matrix(N_EMBD, N_HEAD * D_VALUE)
        t[b + "ffn_norm.weight"] = norm(N_EMBD)
        t[b + "ffn_up.weight"] = matrix(N_FF, N_EMBD)
        t[b + "ffn_down.weight"] = matrix(N_EMBD, N_FF)
    t["output_norm.weight"] = norm(N_EMBD) * np.float32(0.35)
    return t


def write_model(path, arch, integers, floats, vocabulary, tensors):
    """A GGUF file in float32, with the tokenizer of `vocabulary`. integers, floats: keys without the architecture's name."""
    writer = gguf.GGUFWriter(path, arch)
    writer.add_type("model")
    writer.add_name(arch)
    writer.add_file_type(0)
    for key, value in integers.items():
        writer.add_uint32(f"{arch}.{key}", value)
    for key, value in floats.items():
        writer.add_float32(f"{arch}.{key}", value)
    for field in vocabulary.fields.values():
        if field.name.startswith("tokenizer."):
            inner = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=inner)
    for name, data in tensors.items():
        writer.add_tensor(name, data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


INTEGERS = {"block_count": N_LAYER, "context_length": N_CTX, "embedding_length": N_EMBD, "feed_forward_length": N_FF,
            "attention.head_count": N_HEAD, "attention.head_count_kv": N_HEAD, "attention.kv_lora_rank": LATENT,
            "attention.key_length": D_NOPE + D_ROPE, "attention.value_length": D_VALUE, "rope.dimension_count": D_ROPE}
FLOATS = {"rope.freq_base": BASE, "attention.layer_norm_rms_epsilon": EPS}


def rounded(x, digits):
    return json.loads(json.dumps(np.asarray(x).tolist()), parse_float=lambda s: float(f"{float(s):.{digits}g}"))


def golden(shape, tensors, rng, n_vocab):
    tokens = [int(t) for t in rng.integers(0, n_vocab, N_TOKENS)]
    logits, maps, hidden = forward(shape, N_LAYER, tensors, tokens)
    best = [np.argsort(-row, kind="stable")[:8] for row in logits]
    greedy, margins, text = [], [], list(tokens)
    for _ in range(N_GREEDY):
        row = forward(shape, N_LAYER, tensors, text)[0][-1]
        order = np.argsort(-row, kind="stable")
        greedy.append(int(order[0]))
        margins.append(round(float(row[order[0]] - row[order[1]]), 4))
        text.append(greedy[-1])
    return {
        "name": "plm", "arch": "plm", "reference": f"models/make-plm-fixture.py, numpy {np.__version__}, float64",
        "tokens": tokens, "n_vocab": n_vocab, "logits_last": rounded(logits[-1], 8),
        "logits_top8": [[b.tolist(), rounded(row[b], 8)] for b, row in zip(best, logits)],
        "attention": {"layers": list(range(N_LAYER)), "rows": list(range(N_TOKENS)),
                      "weights": [np.round(m, 6).tolist() for m in maps]},
        "hidden_last": {k: rounded(v, 8) for k, v in hidden.items()},
        "greedy": greedy, "greedy_margin": margins,
    }


def main(directory):
    check_against_transformers(directory)
    vocabulary, keys, _ = read(os.path.join(directory, "qwen2.gguf"))
    rng = np.random.default_rng(19790)
    n_vocab = len(keys["tokenizer.ggml.tokens"])
    tensors = random_tensors(rng, n_vocab)
    write_model(os.path.join(directory, "plm.gguf"), "plm", INTEGERS, FLOATS, vocabulary, tensors)
    shape = (N_HEAD, D_NOPE, D_ROPE, D_VALUE, LATENT, BASE, float(np.float32(EPS)))
    values = golden(shape, {k: v.astype(np.float64) for k, v in tensors.items()}, rng, n_vocab)
    print(f"plm: smallest greedy margin {min(values['greedy_margin'])}, logits' deviation {np.std(values['logits_last']):.2f}")
    with open(os.path.join(directory, "plm.golden.json"), "w", encoding="utf-8") as f:
        json.dump(values, f, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
