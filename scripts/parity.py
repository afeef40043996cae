"""Compares what scripts/parity wrote of a run's files with what the Python libraries read out of the same files.

    go run ./scripts/parity --run runs/smoke/company --out DIR
    .local/reference/bin/python scripts/parity.py DIR

tokenizer.json is opened by `tokenizers`: the same ids for every text, and the same text back. model.safetensors is opened
by `safetensors`: the same names, shapes and values, bit for bit. Ends with code 1 and the first differences otherwise.
"""
import json
import os
import sys

try:
    import numpy as np
    from safetensors import safe_open
    from tokenizers import Tokenizer
except ImportError as e:
    sys.exit(f"parity: {e}: run scripts/setup.sh reference, and this with .local/reference/bin/python")


def rows(name):
    with open(os.path.join(sys.argv[1], name), encoding="utf-8") as f:
        for line in f:
            yield json.loads(line)


def check_tokenizers():
    opened, bad, n, ids = {}, [], 0, 0
    for r in rows("encodings.jsonl"):
        path = r["tokenizer"]
        if path not in opened:
            opened[path] = Tokenizer.from_file(path)
        tok = opened[path]
        got = tok.encode(r["text"], add_special_tokens=False).ids
        if got != r["ids"]:
            bad.append(f"ids of {r['text']!r}: tokenizers {got}, ours {r['ids']}")
        text = tok.decode(r["ids"], skip_special_tokens=False)
        if text != r["decoded"]:
            bad.append(f"text of {r['ids']}: tokenizers {text!r}, ours {r['decoded']!r}")
        n, ids = n + 1, ids + len(got)
    print(f"parity: {len(opened)} tokenizer.json, {n} texts, {ids} ids: {len(bad)} differences")
    return bad + ([] if n else ["no text was compared"])


def check_tensors():
    opened, left, bad, values = {}, {}, [], 0
    for r in rows("tensors.jsonl"):
        path, name = r["file"], r["name"]
        if path not in opened:
            opened[path] = safe_open(path, framework="numpy")
            left[path] = set(opened[path].keys())
        if name not in left[path]:
            bad.append(f"{path}: safetensors has no {name}")
            continue
        left[path].discard(name)
        got, want = opened[path].get_tensor(name), np.array(r["values"], dtype=np.float32).reshape(r["shape"])
        if got.dtype != np.float32 or got.shape != want.shape:
            bad.append(f"{path}: {name}: safetensors {got.dtype} {got.shape}, ours float32 {want.shape}")
        elif not np.array_equal(got.view(np.uint32), want.view(np.uint32)):
            bad.append(f"{path}: {name}: {int((got != want).sum())} of {got.size} values differ")
        values += got.size
    for path, names in left.items():
        bad += [f"{path}: {name} is not read by us" for name in sorted(names)]
    print(f"parity: {len(opened)} model.safetensors, {values} values: {len(bad)} differences")
    return bad + ([] if opened else ["no model was compared"])


if len(sys.argv) != 2:
    sys.exit("usage: parity.py FOLDER, which scripts/parity wrote")
problems = check_tokenizers() + check_tensors()
for p in problems[:10]:
    print("parity:", p[:500])
sys.exit(1 if problems else 0)
