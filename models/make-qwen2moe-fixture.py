#!/usr/bin/env python3
"""Makes a tiny qwen2moe model from random numbers and its golden values: make-qwen2moe-fixture.py DIRECTORY

The model is evaluated here, in float64, as transformers' Qwen2Moe does it: attention as in Qwen2; a softmax over all
experts whose best ones keep their weights as they are; shared experts whose output is multiplied by a sigmoid. The same
code runs the fixtures qwen2 (attention) and mixtral (router, experts) in DIRECTORY first and must give transformers'
logits for them. The vocabulary is that of the fixture qwen2 in DIRECTORY. Needs numpy and gguf from PyPI.
"""
import importlib
import json
import os
import sys

import numpy as np

plm = importlib.import_module("make-plm-fixture")

N_LAYER, N_EMBD, N_HEAD, N_HEAD_KV, D_HEAD = 2, 40, 4, 2, 10
N_EXPERT, N_USED, N_FF_EXP, N_FF_SHARED = 6, 2, 24, 36
BASE, EPS, N_CTX, N_TOKENS = 1000000.0, 1e-6, 512, 28


def rotate_halves(x, base):
    """Pairs (i, i + d / 2) of x [positions][heads][d] turn by position * base ** (-2 i / d)."""
    d = x.shape[-1]
    angles = np.arange(x.shape[0])[:, None, None] * base ** (-np.arange(0, d, 2) / d)
    a, b = x[..., : d // 2], x[..., d // 2 :]
    return np.concatenate([a * np.cos(angles) - b * np.sin(angles), a * np.sin(angles) + b * np.cos(angles)], -1)


def attention(shape, w, x):
    """Of the normalised x [positions][n_embd]: the branch, and weights [head][query][key]."""
    n, d, heads, kv_heads = x.shape[0], shape["d_head"], shape["heads"], shape["kv_heads"]

    def project(name, count):
        bias = w.get(f"attn_{name}.bias", 0.0)
        return (x @ w[f"attn_{name}.weight"].T + bias).reshape(n, count, d)

    rotate = rotate_halves if shape["neox"] else plm.rotate
    q, k, v = rotate(project("q", heads), shape["base"]), rotate(project("k", kv_heads), shape["base"]), project("v", kv_heads)
    k, v = np.repeat(k, heads // kv_heads, 1), np.repeat(v, heads // kv_heads, 1)
    scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(d)
    scores[:, np.triu(np.ones((n, n), bool), 1)] = -np.inf
    weights = plm.softmax(scores)
    out = np.einsum("hqk,khd->qhd", weights, v).reshape(n, heads * d)
    return out @ w["attn_output.weight"].T, weights


def gated(x, gate, up, down):
    g = x @ gate.T
    return (g / (1 + np.exp(-g)) * (x @ up.T)) @ down.T


def feed_forward(shape, w, x):
    """The branch, and the router's choice: experts and weights of each position."""
    if "ffn_gate_inp.weight" not in w:
        return gated(x, w["ffn_gate.weight"], w["ffn_up.weight"], w["ffn_down.weight"]), None
    p = plm.softmax(x @ w["ffn_gate_inp.weight"].T)
    experts = np.argsort(-p, axis=-1, kind="stable")[:, : shape["used"]]
    chosen = np.take_along_axis(p, experts, -1)
    if shape["renormalise"]:
        chosen = chosen / chosen.sum(-1, keepdims=True)
    y = np.zeros_like(x)
    for i in range(x.shape[0]):
        for e, weight in zip(experts[i], chosen[i]):
            parts = (w[f"ffn_{part}_exps.weight"][e] for part in ("gate", "up", "down"))
            y[i] += weight * gated(x[i], *parts)
    if "ffn_gate_shexp.weight" in w:
        share = 1 / (1 + np.exp(-(x @ w["ffn_gate_inp_shexp.weight"])))
        parts = (w[f"ffn_{part}_shexp.weight"] for part in ("gate", "up", "down"))
        y += share[:, None] * gated(x, *parts)
    return y, (experts, chosen)


def forward(shape, tensors, tokens):
    """Logits [positions][n_vocab], attention and choices of each layer, hidden states of the last position."""
    x = tensors["token_embd.weight"][tokens]
    hidden, maps, choices = {"embed": x[-1]}, [], []
    for l in range(shape["layers"]):
        name = f"blk.{l}."
        w = {k.removeprefix(name): v for k, v in tensors.items() if k.startswith(name)}
        branch, weights = attention(shape, w, plm.rms(x, w["attn_norm.weight"], shape["eps"]))
        x = x + branch
        branch, choice = feed_forward(shape, w, plm.rms(x, w["ffn_norm.weight"], shape["eps"]))
        x = x + branch
        hidden[f"layer_{l}"] = x[-1]
        maps.append(weights)
        choices.append(choice)
    x = plm.rms(x, tensors["output_norm.weight"], shape["eps"])
    hidden["final_norm"] = x[-1]
    return x @ tensors.get("output.weight", tensors["token_embd.weight"]).T, maps, hidden, choices


def check_against_transformers(directory, name, neox):
    path = os.path.join(directory, name)
    _, keys, tensors = plm.read(path + ".gguf")
    with open(path + ".golden.json", encoding="utf-8") as f:
        golden = json.load(f)
    heads = keys["attention.head_count"]
    shape = {"layers": keys["block_count"], "heads": heads, "kv_heads": keys["attention.head_count_kv"],
             "d_head": keys.get("attention.key_length", keys["embedding_length"] // heads), "neox": neox,
             "base": keys["rope.freq_base"], "eps": keys["attention.layer_norm_rms_epsilon"],
             "used": keys.get("expert_used_count"), "renormalise": True}
    logits = forward(shape, tensors, golden["tokens"])[0]
    off = np.abs(logits[-1] - golden["logits_last"]).max()
    print(f"{name}: logits are within {off:.2g} of transformers")
    if not off < 1e-4:
        sys.exit(f"this code does not evaluate {name} as transformers does")


def random_tensors(rng, n_vocab):
    def matrix(*shape, gain=1.0):
        return (rng.standard_normal(shape) * gain / np.sqrt(shape[-1])).astype(np.float32)

    def norm(n):
        return (1 + 0.2 * rng.standard_normal(n)).astype(np.float32)

    t = {"token_embd.weight": rng.standard_normal((n_vocab, N_EMBD)).astype(np.float32) * np.float32(0.7)}
    for l in range(N_LAYER):
        b = f"blk.{l}."
        t[b + "attn_norm.weight"] = norm(N_EMBD)
        for name, heads in (("q", N_HEAD), ("k", N_HEAD_KV), ("v", N_HEAD_KV)):
            t[b + f"attn_{name}.weight"] = matrix(heads * D_HEAD, N_EMBD, gain=1.4)
            t[b + f"attn_{name}.bias"] = rng.standard_normal(heads * D_HEAD).astype(np.float32) * np.float32(0.3)
        t[b + "attn_output.weight"] = matrix(N_EMBD, N_HEAD * D_HEAD)
        t[b + "ffn_norm.weight"] = norm(N_EMBD)
        t[b + "ffn_gate_inp.weight"] = matrix(N_EXPERT, N_EMBD, gain=2.0)
        t[b + "ffn_gate_exps.weight"] = matrix(N_EXPERT, N_FF_EXP, N_EMBD, gain=1.5)
        t[b + "ffn_up_exps.weight"] = matrix(N_EXPERT, N_FF_EXP, N_EMBD, gain=1.5)
        t[b + "ffn_down_exps.weight"] = matrix(N_EXPERT, N_EMBD, N_FF_EXP, gain=1.5)
        t[b + "ffn_gate_inp_shexp.weight"] = matrix(N_EMBD, gain=2.0)
        t[b + "ffn_gate_shexp.weight"] = matrix(N_FF_SHARED, N_EMBD, gain=1.5)
        t[b + "ffn_up_shexp.weight"] = matrix(N_FF_SHARED, N_EMBD, gain=1.5)
        t[b + "ffn_down_shexp.weight"] = matrix(N_EMBD, N_FF_SHARED, gain=1.5)
    t["output_norm.weight"] = norm(N_EMBD) * np.float32(0.35)
    t["output.weight"] = matrix(n_vocab, N_EMBD, gain=6.0)
    return t


INTEGERS = {"block_count": N_LAYER, "context_length": N_CTX, "embedding_length": N_EMBD,
            "feed_forward_length": N_FF_SHARED, "attention.head_count": N_HEAD, "attention.head_count_kv": N_HEAD_KV,
            "expert_count": N_EXPERT, "expert_used_count": N_USED, "expert_feed_forward_length": N_FF_EXP,
            "expert_shared_feed_forward_length": N_FF_SHARED}
FLOATS = {"rope.freq_base": BASE, "attention.layer_norm_rms_epsilon": EPS}


def golden(shape, tensors, rng, n_vocab):
    tokens = [int(t) for t in rng.integers(0, n_vocab, N_TOKENS)]
    logits, maps, hidden, choices = forward(shape, tensors, tokens)
    best = [np.argsort(-row, kind="stable")[:8] for row in logits]
    greedy, margins, text = [], [], list(tokens)
    for _ in range(plm.N_GREEDY):
        row = forward(shape, tensors, text)[0][-1]
        order = np.argsort(-row, kind="stable")
        greedy.append(int(order[0]))
        margins.append(round(float(row[order[0]] - row[order[1]]), 4))
        text.append(greedy[-1])
    return {
        "name": "qwen2moe", "arch": "qwen2moe",
        "reference": f"models/make-qwen2moe-fixture.py, numpy {np.__version__}, float64",
        "tokens": tokens, "n_vocab": n_vocab, "logits_last": plm.rounded(logits[-1], 8),
        "logits_top8": [[b.tolist(), plm.rounded(row[b], 8)] for b, row in zip(best, logits)],
        "attention": {"layers": list(range(N_LAYER)), "rows": list(range(N_TOKENS)),
                      "weights": [np.round(m, 6).tolist() for m in maps]},
        "hidden_last": {k: plm.rounded(v, 8) for k, v in hidden.items()},
        "router": {str(l): {"experts": experts.tolist(), "weights": plm.rounded(weights, 7)}
                   for l, (experts, weights) in enumerate(choices)},
        "greedy": greedy, "greedy_margin": margins,
    }


def main(directory):
    check_against_transformers(directory, "qwen2", True)
    check_against_transformers(directory, "mixtral", False)
    vocabulary, keys, _ = plm.read(os.path.join(directory, "qwen2.gguf"))
    rng = np.random.default_rng(20240)
    n_vocab = len(keys["tokenizer.ggml.tokens"])
    tensors = random_tensors(rng, n_vocab)
    plm.write_model(os.path.join(directory, "qwen2moe.gguf"), "qwen2moe", INTEGERS, FLOATS, vocabulary, tensors)
    shape = {"layers": N_LAYER, "heads": N_HEAD, "kv_heads": N_HEAD_KV, "d_head": D_HEAD, "neox": True, "base": BASE,
             "eps": float(np.float32(EPS)), "used": N_USED, "renormalise": False}
    values = golden(shape, {k: v.astype(np.float64) for k, v in tensors.items()}, rng, n_vocab)
    print(f"qwen2moe: smallest greedy margin {min(values['greedy_margin'])}, "
          f"logits' deviation {np.std(values['logits_last']):.2f}")
    with open(os.path.join(directory, "qwen2moe.golden.json"), "w", encoding="utf-8") as f:
        json.dump(values, f, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
