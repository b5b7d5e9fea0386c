# SPDX-License-Identifier: Apache-2.0
"""A block of the transformer that the rivals train: what kerkis::nn::TransformerBlock is."""

import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width, eps=1e-5)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width, eps=1e-5)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        sequences, context, width = x.shape
        query, key, value = self.qkv(self.norm1(x)).view(sequences, context, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(sequences, context, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))
