"""A Llama-like language model as torchtitan writes it: RMS norms, rotary embedding on complex numbers,
grouped keys copied for every head, a gated feed-forward layer, weights without biases.

Written after torchtitan's description (Liang et al., 2024, section 2) and Llama 3's (Dubey et al., 2024, section 3.2).
"""
from dataclasses import dataclass

from support.run import import_torch

torch = import_torch()
nn = torch.nn
F = torch.nn.functional


@dataclass(frozen=True)
class Shape:
    """Dimensions of a model; `layers` may be fewer than the named model has."""
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int

    def parameters(self):
        """Weights, output layer apart from the embedding."""
        head = self.hidden // self.heads
        attention = self.hidden * head * (2 * self.heads + 2 * self.kv_heads)
        layer = attention + 3 * self.hidden * self.ffn + 2 * self.hidden
        return self.layers * layer + 2 * self.vocab * self.hidden + self.hidden


class Norm(nn.Module):
    """RMS norm by PyTorch's own operator where it has one."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        if hasattr(F, "rms_norm"):
            return F.rms_norm(x, self.weight.shape, self.weight, 1e-5)
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).type_as(x) * self.weight


def turns(length, depth, device, theta=500000.0):
    """Rotations [length, depth / 2] (complex) of rotary embedding."""
    steps = theta ** (-torch.arange(0, depth, 2, device=device).float() / depth)
    angles = torch.outer(torch.arange(length, device=device).float(), steps)
    return torch.polar(torch.ones_like(angles), angles)


def rotated(x, rotations):
    """x [batch, length, heads, depth] turned by its place, in 32 bits."""
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * rotations[None, :, None, :]).flatten(3).type_as(x)


class Attention(nn.Module):
    def __init__(self, shape, linear):
        super().__init__()
        self.heads, self.copies = shape.heads, shape.heads // shape.kv_heads
        head = shape.hidden // shape.heads
        self.wq, self.wo = linear(shape.hidden, shape.heads * head), linear(shape.heads * head, shape.hidden)
        self.wk, self.wv = (linear(shape.hidden, shape.kv_heads * head) for _ in range(2))

    def forward(self, x, rotations):
        batch, length, width = x.shape
        depth = width // self.heads
        q, k, v = (w(x).view(batch, length, -1, depth) for w in (self.wq, self.wk, self.wv))
        q, k = rotated(q, rotations), rotated(k, rotations)
        if self.copies > 1:
            k, v = (t[:, :, :, None, :].expand(-1, -1, -1, self.copies, -1).reshape(batch, length, -1, depth)
                    for t in (k, v))
        mixed = F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v)), is_causal=True)
        return self.wo(mixed.transpose(1, 2).contiguous().view(batch, length, width))


class Layer(nn.Module):
    def __init__(self, shape, linear):
        super().__init__()
        self.attention_norm, self.ffn_norm = Norm(shape.hidden), Norm(shape.hidden)
        self.attention = Attention(shape, linear)
        self.w1, self.w3 = linear(shape.hidden, shape.ffn), linear(shape.hidden, shape.ffn)
        self.w2 = linear(shape.ffn, shape.hidden)

    def forward(self, x, rotations):
        x = x + self.attention(self.attention_norm(x), rotations)
        y = self.ffn_norm(x)
        return x + self.w2(F.silu(self.w1(y)) * self.w3(y))


class Llama(nn.Module):
    """Tokens [batch, length] (int64) to logits [batch, length, vocabulary]. `linear` makes a linear layer of a
    layer (inputs, outputs); embedding and output layer are PyTorch's own. `prepared` gets each layer with its number
    when it is made and returns what stands in its place, so that no more than one is whole where that divides it."""

    def __init__(self, shape, length, device, linear=None, prepared=None):
        super().__init__()
        linear = linear or (lambda k, n: nn.Linear(k, n, bias=False))
        prepared = prepared or (lambda layer, number: layer)
        self.tokens = nn.Embedding(shape.vocab, shape.hidden)
        self.layers = nn.ModuleList()
        for number in range(shape.layers):
            self.layers.append(prepared(Layer(shape, linear), number))
        self.norm, self.output = Norm(shape.hidden), nn.Linear(shape.hidden, shape.vocab, bias=False)
        self.rotations = turns(length, shape.hidden // shape.heads, device)

    def forward(self, tokens):
        x = self.tokens(tokens)
        for layer in self.layers:
            x = layer(x, self.rotations)
        return self.output(self.norm(x))
