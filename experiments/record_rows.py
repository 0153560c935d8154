#!/usr/bin/env python3
"""Records target and draft rows of transformers models in the layout that cop.rows reads.

    python3 record_rows.py --target DIR --draft DIR --prompts prompts.txt --out rows \
        [--max-tokens 128] [--depth 5] [--temperature 0] [--seed 0] [--dtype f16] [--device cuda]

The target answers each prompt (a line of the file; --ids: lists of token ids as JSON) by itself. At every position of
the answer the draft proposes a chain of --depth tokens, its best at each step, and both models give their rows after
every prefix that this makes: so chains up to that depth can be replayed at every position. One file for each prompt,
OUT-1.safetensors, …:

    tokens, parents [n]    entries of a trie: entry i is a token, its rows what comes after it
    positions [m]          entries of the answer, the last prompt token first
    context [1], room [1]  tokens before entry 0; levels that a cycle there can draft
    target.logits, draft.logits [n, vocabulary]   the best is 0

Then, in Lua: cop.replay { rows = cop.rows { path = "rows-1.safetensors" }, arms = { … } }. Needs torch, transformers,
numpy and safetensors; both models must share a vocabulary (rows are cut to the smaller one's size).
"""

import argparse
import json
import sys

import numpy
import torch
from safetensors.numpy import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer


class Trie:
    """Prefixes below the prompt; equal ones are one entry."""

    def __init__(self, root):
        self.tokens, self.parents, self.place = [root], [-1], {(): 0}

    def enter(self, prefix):
        """The entry of a prefix, a tuple of ids below the root."""
        if prefix not in self.place:
            parent = self.enter(prefix[:-1])
            self.place[prefix] = len(self.tokens)
            self.tokens.append(prefix[-1])
            self.parents.append(parent)
        return self.place[prefix]


@torch.no_grad()
def rows_of(model, ids, first):
    """Logits after ids[first], …, ids[-1], as float32."""
    out = model(torch.tensor([ids], device=model.device)).logits[0, first:]
    return out.float().cpu().numpy()


@torch.no_grad()
def answer_of(model, ids, limit, temperature, generator, ends):
    """The target's own answer, the end token included."""
    answer = []
    while len(answer) < limit and not (answer and answer[-1] in ends):
        logits = rows_of(model, ids + answer, len(ids) + len(answer) - 1)[-1]
        if temperature == 0:
            answer.append(int(logits.argmax()))
        else:
            law = torch.softmax(torch.from_numpy(logits).double() / temperature, 0)
            answer.append(int(torch.multinomial(law, 1, generator=generator)))
    return answer


@torch.no_grad()
def chain_of(model, ids, depth):
    """The draft's best tokens, one after another."""
    chain = []
    for _ in range(depth):
        chain.append(int(rows_of(model, ids + chain, len(ids) + len(chain) - 1)[-1].argmax()))
    return chain


def record(target, draft, ids, options, generator, ends):
    answer = answer_of(target, ids, options.max_tokens, options.temperature, generator, ends)
    trie, texts = Trie(ids[-1]), [tuple(answer)]
    positions = [trie.enter(tuple(answer[:i])) for i in range(len(answer))]
    for i in range(len(answer)):
        depth = min(options.depth, options.max_tokens - i - 1)
        texts.append(tuple(answer[:i] + chain_of(draft, ids + answer[:i], depth)))
    for text in texts:
        trie.enter(text)
    vocabulary = min(target.config.vocab_size, draft.config.vocab_size)
    rows = {name: numpy.empty((len(trie.tokens), vocabulary), numpy.float32) for name in ("target", "draft")}
    is_filled = numpy.zeros(len(trie.tokens), bool)
    for text in texts:  # one pass over each text gives the rows of all its prefixes
        entries = [trie.enter(text[:i]) for i in range(len(text) + 1)]
        if not is_filled[entries].all():
            for name, model in (("target", target), ("draft", draft)):
                rows[name][entries] = rows_of(model, ids + list(text), len(ids) - 1)[:, :vocabulary]
            is_filled[entries] = True
    return trie, positions, rows


def save(path, trie, positions, rows, n_prompt, options):
    number = numpy.float16 if options.dtype == "f16" else numpy.float32
    tensors = {
        "tokens": numpy.array(trie.tokens, numpy.int32),
        "parents": numpy.array(trie.parents, numpy.int32),
        "positions": numpy.array(positions, numpy.int32),
        "context": numpy.array([n_prompt - 1], numpy.int32),
        "room": numpy.array([options.max_tokens - 1], numpy.int32),
    }
    for name, logits in rows.items():
        # f16 is fine near 0 and coarse far from it: the best token is put there
        tensors[name + ".logits"] = (logits - logits.max(axis=1, keepdims=True)).astype(number)
    save_file(tensors, path)


def prompts_of(options, tokenizer):
    with open(options.ids or options.prompts, encoding="utf-8") as file:
        lines = [line.rstrip("\n") for line in file if line.strip()]
    if options.ids:
        return [json.loads(line) for line in lines]
    return [tokenizer(line).input_ids for line in lines]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--target", required=True, help="folder or name of a causal language model")
    parser.add_argument("--draft", required=True)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--prompts", help="a text file, one prompt a line")
    source.add_argument("--ids", help="JSON lines, a list of token ids each")
    parser.add_argument("--out", required=True, help="OUT-1.safetensors, OUT-2.safetensors, …")
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--depth", type=int, default=5, help="of the recorded chains")
    parser.add_argument("--temperature", type=float, default=0, help="of the answers; rows are raw logits")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dtype", choices=("f16", "f32"), default="f16", help="of the recorded numbers")
    parser.add_argument("--model-dtype", default="auto", help="of the models: auto, float32, bfloat16, …")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    if options.max_tokens < 1 or options.depth < 1 or options.temperature < 0:
        parser.error("--max-tokens and --depth must be at least 1, --temperature at least 0")
    return options


def main():
    options = arguments()
    dtype = options.model_dtype if options.model_dtype == "auto" else getattr(torch, options.model_dtype)
    models = [AutoModelForCausalLM.from_pretrained(path, dtype=dtype).to(options.device).eval()
              for path in (options.target, options.draft)]
    tokenizer = None if options.ids else AutoTokenizer.from_pretrained(options.target)
    ends = models[0].generation_config.eos_token_id if models[0].generation_config else None
    ends = set(ends if isinstance(ends, list) else [ends]) - {None}
    generator = torch.Generator().manual_seed(options.seed)
    for number, ids in enumerate(prompts_of(options, tokenizer), 1):
        if not ids:
            sys.exit(f"prompt {number} has no token")
        path = f"{options.out}-{number}.safetensors"
        trie, positions, rows = record(*models, ids, options, generator, ends)
        save(path, trie, positions, rows, len(ids), options)
        print(f"{path}: {len(positions)} positions, {len(trie.tokens)} rows of each model", flush=True)


if __name__ == "__main__":
    main()
