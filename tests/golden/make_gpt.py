#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes gpt.json, the numbers that tests/train/golden.cpp compares with: tiny GPTs trained by PyTorch in double.

    sh cmake/bench.sh train_step        # once: installs python3-torch where the tool chain is
    OPENBLAS_NUM_THREADS=1 sh cmake/run.sh python3 tests/golden/make_gpt.py

Parameters have kerkis' names and global shapes, row-major. Losses and gradients are means over the scored targets. The model is GPT-2's
(pre-LayerNorm, learned positions, causal attention, GELU in its tanh form, final LayerNorm), written with torch's own functions.
"""

import json
import pathlib

import torch
import torch.nn.functional as F

STEPS = 10
ADAMW = {"learning_rate": 1e-3, "beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8, "weight_decay": 0.1}
# Uneven over two ranks on purpose: 3 heads, 11 words, 5 sequences.
SIZES = {"layers": 2, "heads": 3, "width": 12, "context": 6, "vocabulary": 11}
BATCH = 5


def make_parameters(config, generator):
    """Every tensor random, gains and biases too, so that no gradient is trivial. Three decimals: short, and the same number for every reader."""
    width, vocabulary = config["width"], config["vocabulary"]
    parameters = {}

    def add(name, *shape, mean=0.0, deviation=0.25):
        values = mean + deviation * torch.randn(*shape, generator=generator, dtype=torch.float64)
        parameters[name] = torch.round(values, decimals=3).requires_grad_()

    add("embedding.tokens", vocabulary, width, deviation=0.5)
    add("embedding.positions", config["context"], width, deviation=0.5)
    for layer in range(config["layers"]):
        block = f"blocks.{layer}."
        add(block + "norm1.gain", width, mean=1.0)
        add(block + "norm1.bias", width)
        add(block + "attention.qkv.weight", 3, width, width)
        add(block + "attention.qkv.bias", 3, width)
        add(block + "attention.out.weight", width, width)
        add(block + "attention.out.bias", width)
        add(block + "norm2.gain", width, mean=1.0)
        add(block + "norm2.bias", width)
        add(block + "mlp.up.weight", 4 * width, width)
        add(block + "mlp.up.bias", 4 * width)
        add(block + "mlp.down.weight", width, 4 * width)
        add(block + "mlp.down.bias", width)
    add("head.norm.gain", width, mean=1.0)
    add("head.norm.bias", width)
    if not config["tied"]:
        add("head.weight", vocabulary, width)
    return parameters


def mean_loss(config, parameters, tokens, targets):
    width, heads = config["width"], config["heads"]
    sequences, context = tokens.shape
    take = parameters.__getitem__

    def norm(x, name):
        return F.layer_norm(x, (width,), take(name + ".gain"), take(name + ".bias"), eps=1e-5)

    def linear(x, name):
        return F.linear(x, take(name + ".weight"), take(name + ".bias"))

    x = take("embedding.tokens")[tokens] + take("embedding.positions")
    for layer in range(config["layers"]):
        block = f"blocks.{layer}."
        qkv = torch.einsum("bti,soi->sbto", norm(x, block + "norm1"), take(block + "attention.qkv.weight"))
        qkv = qkv + take(block + "attention.qkv.bias")[:, None, None, :]
        query, key, value = qkv.view(3, sequences, context, heads, width // heads).transpose(2, 3)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + linear(mixed.transpose(1, 2).reshape(sequences, context, width), block + "attention.out")
        hidden = F.gelu(linear(norm(x, block + "norm2"), block + "mlp.up"), approximate="tanh")
        x = x + linear(hidden, block + "mlp.down")
    table = take("embedding.tokens" if config["tied"] else "head.weight")
    logits = F.linear(norm(x, "head.norm"), table)
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)


def make_case(name, tied, ignored, seed):
    generator = torch.Generator().manual_seed(seed)
    config = {**SIZES, "tied": tied}
    parameters = make_parameters(config, generator)
    tokens = torch.randint(config["vocabulary"], (STEPS, BATCH, config["context"]), generator=generator)
    targets = torch.randint(config["vocabulary"], (STEPS, BATCH, config["context"]), generator=generator)
    if ignored:
        targets[torch.rand(targets.shape, generator=generator) < 0.3] = -1
        targets[:, 1] = -1  # a whole sequence without a target
    case = {
        "name": name,
        "config": config,
        "parameters": {key: {"shape": list(p.shape), "values": p.detach().flatten().tolist()} for key, p in parameters.items()},
        "tokens": tokens.flatten(1).tolist(),
        "targets": targets.flatten(1).tolist(),
        "losses": [],
        "gradient_norms": [],
    }

    is_matrix = {key: p.dim() >= 2 and not key.endswith(".bias") for key, p in parameters.items()}
    optimizer = torch.optim.AdamW(
        [
            {"params": [p for key, p in parameters.items() if is_matrix[key]], "weight_decay": ADAMW["weight_decay"]},
            {"params": [p for key, p in parameters.items() if not is_matrix[key]], "weight_decay": 0.0},
        ],
        lr=ADAMW["learning_rate"],
        betas=(ADAMW["beta1"], ADAMW["beta2"]),
        eps=ADAMW["epsilon"],
    )
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = mean_loss(config, parameters, tokens[step], targets[step])
        loss.backward()
        if step == 0:
            case["gradients"] = {key: p.grad.flatten().tolist() for key, p in parameters.items()}
        case["losses"].append(loss.item())
        case["gradient_norms"].append(torch.sqrt(sum((p.grad**2).sum() for p in parameters.values())).item())
        optimizer.step()
    return case


def main():
    torch.set_num_threads(1)
    cases = [
        make_case("tied weights", tied=True, ignored=False, seed=1),
        make_case("output weights of their own, some targets not scored", tied=False, ignored=True, seed=2),
    ]
    result = {"made_by": f"make_gpt.py with PyTorch {torch.__version__}", "batch": BATCH, "adamw": ADAMW, "cases": cases}
    path = pathlib.Path(__file__).with_name("gpt.json")
    path.write_text(json.dumps(result, separators=(",", ":")).replace('],"', '],\n"').replace('},"', '},\n"') + "\n")
    for case in cases:
        print(case["name"], case["losses"][0], case["losses"][-1], case["gradient_norms"][0])


main()
