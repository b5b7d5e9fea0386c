#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rival of train_step.cpp: the same GPT, batch and optimizer in PyTorch, one thread per rank, ranks joined by DistributedDataParallel over Gloo.

Talks like `train_step --serve`: says "ready PARAMETERS LOSS" with the loss of its first step, then answers each line "BLOCKS STEPS" with
"seconds X", per step of the best of BLOCKS blocks of STEPS steps, until its input ends. Rank 0 starts the other ranks.

Eager mode, for Debian's torch.compile lacks a back end. Batches are made beforehand: reading them costs PyTorch nothing here.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

from torch_block import Block

VOCABULARY = 256


class Gpt(nn.Module):
    def __init__(self, layers, heads, width, context):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Parameter(torch.empty(context, width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width, eps=1e-5)
        for name, parameter in self.named_parameters():
            if parameter.dim() >= 2:
                residual = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(parameter, std=0.02 / (2 * layers) ** 0.5 if residual else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.tokens.weight)  # tied
        return F.cross_entropy(logits.view(-1, VOCABULARY), targets.view(-1))


class Run:
    def __init__(self, options):
        torch.manual_seed(1)
        model = Gpt(options.layers, options.heads, options.width, options.context)
        self.parameters = list(model.parameters())
        self.optimizer = torch.optim.AdamW(
            [
                {"params": [p for p in self.parameters if p.dim() >= 2], "weight_decay": 0.1},
                {"params": [p for p in self.parameters if p.dim() < 2], "weight_decay": 0.0},
            ],
            lr=3e-4,
            betas=(0.9, 0.95),
            eps=1e-8,
            fused=True,
        )
        self.model = model
        if options.ranks > 1:
            self.model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True, static_graph=True)
        torch.manual_seed(2 + options.rank)
        text = torch.randint(VOCABULARY, (16, options.batch, options.context + 1))
        self.batches = [(part[:, :-1].contiguous(), part[:, 1:].contiguous()) for part in text]
        self.steps = 0

    def step(self):
        tokens, targets = self.batches[self.steps % len(self.batches)]
        self.steps += 1
        loss = self.model(tokens, targets)
        loss.backward()
        # clip_grad_norm_ in a third less time: its fused form exists on GPUs only.
        gradients = [p.grad for p in self.parameters]
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
        torch._foreach_mul_(gradients, torch.clamp(1.0 / (norm + 1e-6), max=1.0))
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss


def serve(options):
    run = Run(options)

    def barrier():
        if options.ranks > 1:
            dist.barrier()

    def say(*words):
        if options.rank == 0:
            print(*words, flush=True)

    loss = run.step()
    run.step()  # DistributedDataParallel settles its buckets after the first
    say("ready", sum(p.numel() for p in run.parameters), loss.item())
    while True:
        order = torch.zeros(2, dtype=torch.int64)
        if options.rank == 0:
            line = sys.stdin.readline().split()
            if line:
                order = torch.tensor([int(word) for word in line])
        if options.ranks > 1:
            dist.broadcast(order, 0)
        blocks, steps = order.tolist()
        if blocks == 0:
            return
        best = float("inf")
        for _ in range(blocks):
            barrier()
            start = time.perf_counter()
            for _ in range(steps):
                run.step()
            barrier()
            best = min(best, (time.perf_counter() - start) / steps)
        say("seconds", best)


def main():
    parser = argparse.ArgumentParser()
    for name, default in (("layers", 2), ("heads", 4), ("width", 32), ("context", 16), ("batch", 4), ("ranks", 1), ("rank", 0)):
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--meeting", help="file through which the ranks find each other")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.ranks == 1:
        return serve(options)

    os.environ.update(USE_LIBUV="0", GLOO_SOCKET_IFNAME="lo")
    with tempfile.TemporaryDirectory() as folder:
        others = []
        if options.rank == 0:
            options.meeting = os.path.join(folder, "meeting")
            arguments = [sys.executable, *sys.argv, "--meeting", options.meeting]
            others = [subprocess.Popen([*arguments, "--rank", str(rank)], stdin=subprocess.DEVNULL) for rank in range(1, options.ranks)]
        try:
            dist.init_process_group("gloo", init_method="file://" + options.meeting, rank=options.rank, world_size=options.ranks)
            serve(options)
            dist.destroy_process_group()
        except BaseException:
            for other in others:
                other.kill()
            raise
        for other in others:
            other.wait()


main()
