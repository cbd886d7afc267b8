"""A transformer language model: GPT-2 (causal, norm first) and BERT (bidirectional, norm last)."""
from support.run import import_torch

torch = import_torch()
nn = torch.nn
F = torch.nn.functional


class Block(nn.Module):
    def __init__(self, width, heads, causal, attention):
        super().__init__()
        self.heads, self.causal, self.norm_first = heads, causal, causal
        self.fused = attention == "sdpa" and hasattr(F, "scaled_dot_product_attention")
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop = nn.Dropout(0.1)

    def attend(self, x):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2)
                   for t in self.qkv(x).split(width, dim=2))
        if self.fused:
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        else:
            scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
            if self.causal:
                mask = torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
                scores = scores.masked_fill(~mask, float("-inf"))
            mixed = scores.softmax(-1) @ v
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x):
        if self.norm_first:
            x = x + self.drop(self.attend(self.norm1(x)))
            return x + self.drop(self.down(F.gelu(self.up(self.norm2(x)))))
        x = self.norm1(x + self.drop(self.attend(x)))
        return self.norm2(x + self.drop(self.down(F.gelu(self.up(x)))))


class Transformer(nn.Module):
    """Tokens [batch, sequence] (int64) to logits [batch, sequence, vocabulary]; the output projection
    shares the token embedding."""

    def __init__(self, layers, width, heads, vocabulary, sequence, causal, attention):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(sequence, width)
        self.blocks = nn.ModuleList(Block(width, heads, causal, attention) for _ in range(layers))
        self.norm, self.drop = nn.LayerNorm(width), nn.Dropout(0.1)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.drop(self.tokens(tokens) + self.places(places))
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.tokens.weight)
