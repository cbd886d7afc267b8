"""DLRM (Naumov et al. 2019): bottom MLP, embedding tables, pairwise interaction, top MLP.

On several ranks each table lies on one rank, which looks up the global batch; an all-to-all hands every
rank its samples' vectors.  The MLPs are data-parallel.
"""
from support import indices as index_draws
from support.run import import_torch

torch = import_torch()
nn = torch.nn


class _Exchange(torch.autograd.Function):
    """All-to-all of pooled vectors forward, of their gradients backward."""

    @staticmethod
    def forward(ctx, sent, send_counts, receive_counts):
        ctx.counts = (send_counts, receive_counts)
        received = sent.new_empty(sum(receive_counts))
        torch.distributed.all_to_all_single(received, sent.contiguous(), receive_counts,
                                            send_counts)
        return received

    @staticmethod
    def backward(ctx, gradient):
        send_counts, receive_counts = ctx.counts
        returned = gradient.new_empty(sum(send_counts))
        torch.distributed.all_to_all_single(returned, gradient.contiguous(), send_counts,
                                            receive_counts)
        return returned, None, None


def _mlp(sizes, last_relu):
    layers = []
    for number, (fan_in, fan_out) in enumerate(zip(sizes, sizes[1:])):
        layers.append(nn.Linear(fan_in, fan_out))
        if last_relu or number < len(sizes) - 2:
            layers.append(nn.ReLU())
    return nn.Sequential(*layers)


class Dlrm(nn.Module):
    # mix: (rows and pooling factor of each table, embedding width)
    MIXES = {
        "small": ([(100_000, 1)] * 8, 64),
        "mixed": ([(rows, 1) for rows in (
            10_000_000, 4_000_000, 2_000_000, 1_000_000, 500_000, 250_000, 100_000, 50_000, 20_000,
            10_000, 5_000, 2_000, 1_000, 500, 200, 100, 50, 25, 10, 4)] +
            [(1_000_000, 10), (500_000, 20), (200_000, 50), (100_000, 5), (10_000, 30), (1_000, 3)], 64),
        "heavy": ([(1_000_000, 40)] * 8 + [(2_000_000, 80)] * 4, 64),
        "wide": ([(500_000, 10)] * 16, 256),
    }

    def __init__(self, options, ranks, batch):
        super().__init__()
        tables, width = self.MIXES[options.tables]
        dense = 13
        bottom, top = [512, 256], [1024, 1024, 512, 256, 1]
        if options.tiny:
            tables = [(max(rows // 10_000, 4), min(pooling, 3)) for rows, pooling in tables[:6]]
            width, bottom, top = 8, [16], [16, 1]
        self.ranks, self.batch, self.width, self.tables = ranks, batch, width, tables
        self.owners = [t % ranks.world for t in range(len(tables))]
        self.mine = [t for t, owner in enumerate(self.owners) if owner == ranks.rank]
        self.options = options
        features = len(tables) + 1
        self.bottom = _mlp([dense] + bottom + [width], True).to(ranks.device)
        self.top = _mlp([features * (features - 1) // 2 + width] + top, False).to(ranks.device)
        self.bags = nn.ModuleList(
            nn.EmbeddingBag(tables[t][0], width, mode="sum", sparse=not options.dense_grad,
                            device=ranks.device) for t in self.mine)
        low = torch.tril_indices(features, features, offset=-1, device=ranks.device)
        self.register_buffer("low", low)
        self.facts = {"tables": len(tables), "table_mix": options.tables, "embedding_width": width,
                      "rows": [t[0] for t in tables], "pooling": [t[1] for t in tables],
                      "indices": options.indices, "dense_grad": options.dense_grad,
                      "tables_of_rank": self.mine}

    def batches(self, count):
        """(dense [batch, 13], labels [batch, 1], then indices and offsets of each own table, over the
        global batch)."""
        found, factors = [], []
        global_batch = self.batch * self.ranks.world
        for number in range(count):
            batch = [torch.randn(self.batch, 13), torch.rand(self.batch, 1).round()]
            for t in self.mine:
                rows, pooling = self.tables[t]
                generator = torch.Generator().manual_seed(self.options.seed * 100_003 + 1000 * number + t)
                drawn = index_draws.draw(self.options.indices, global_batch * pooling, rows, generator,
                                         torch.device("cpu"))
                factors.append(index_draws.reuse_factors(drawn, rows))
                batch += [drawn, torch.arange(0, global_batch * pooling, pooling)]
            found.append(tuple(batch))
        if factors:
            self.facts["reuse_factors_mean"] = index_draws.reuse_text(factors)
        return found

    def lookup(self, lookups):
        pooled = [bag(lookups[2 * i], lookups[2 * i + 1]) for i, bag in enumerate(self.bags)]
        if self.ranks.world == 1:
            return [p.unsqueeze(1) for p in pooled]
        # A rank without tables takes part in both exchanges all the same.
        sent = torch.cat(pooled, 1) if pooled else torch.zeros(
            0, device=self.ranks.device, requires_grad=True)
        world, block = self.ranks.world, self.batch * self.width
        counts = [self.owners.count(r) * block for r in range(world)]
        received = _Exchange.apply(sent.reshape(-1), [len(self.mine) * block] * world, counts)
        return [part.view(self.batch, self.owners.count(r), self.width)
                for r, part in enumerate(received.split(counts))]

    def forward(self, dense, lookups):
        low_level = self.bottom(dense)
        features = torch.cat([low_level.unsqueeze(1)] +
                             [p.to(low_level.dtype) for p in self.lookup(lookups)], 1)
        gemms = torch.bmm(features, features.transpose(1, 2))
        pairs = gemms[:, self.low[0], self.low[1]]
        return self.top(torch.cat([low_level, pairs], 1))

    def loss(self, dense, labels, *lookups):
        return nn.functional.binary_cross_entropy_with_logits(self(dense, lookups).float(), labels)
