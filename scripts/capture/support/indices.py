"""Embedding lookup indices of several distributions, and their reuse factors.

Reuse factors follow section IV-C of the multi-GPU paper: count how often each row is accessed in a
batch, then count rows by access count in 17 bins [0,1) [1,2) [2,4) [4,8) ... [16384,32768)
[32768,inf), and divide by the number of rows accessed.  Since only accessed rows are counted, the
first bin is always 0; it is kept so that the bins are the paper's.
"""
from support.run import import_torch

BINS = 17


def reuse_factors(indices, rows):
    """The 17 fractions (floats that sum to 1; all 0 without indices) of one table's indices."""
    torch = import_torch()
    if indices.numel() == 0:
        return [0.0] * BINS
    counts = torch.unique(indices, return_counts=True)[1]
    edges = torch.tensor([1 << i for i in range(BINS - 1)], device=counts.device)
    bins = torch.bincount(torch.bucketize(counts, edges, right=True), minlength=BINS)
    return [value / counts.numel() for value in bins.tolist()]


def reuse_text(per_table):
    """Mean over tables of their reuse factors, as the shape key rf."""
    mean = [sum(values) / len(per_table) for values in zip(*per_table)]
    return "|".join("%.5g" % value for value in mean)


def _scatter(ranks, rows, generator):
    """Popularity ranks to row numbers all over the table: a bijection, by a prime stride."""
    prime = 1000003 if rows % 1000003 else 999983
    offset = int(import_torch().randint(rows, (1,), generator=generator, device=ranks.device))
    return (ranks * prime + offset) % rows


def uniform(count, rows, generator, device):
    torch = import_torch()
    return torch.randint(rows, (count,), generator=generator, device=device)


def unique(count, rows, generator, device):
    """No row twice, as far as there are rows."""
    torch = import_torch()
    ranks = torch.arange(count, device=device) % rows
    return _scatter(ranks, rows, generator)


def zipf(count, rows, generator, device, exponent):
    """Rank r with probability about r^-exponent, by inverting the continuous distribution."""
    torch = import_torch()
    u = torch.rand(count, generator=generator, device=device, dtype=torch.float64)
    if abs(exponent - 1.0) < 1e-9:
        x = float(rows) ** u
    else:
        power = 1.0 - exponent
        x = ((float(rows) ** power - 1.0) * u + 1.0) ** (1.0 / power)
    return _scatter((x.long() - 1).clamp_(0, rows - 1), rows, generator)


def binned(count, rows, generator, device, decay):
    """Reuse falls by `decay` from one power-of-two bin to the next, as in recorded data."""
    torch = import_torch()
    shares = torch.tensor([decay ** j for j in range(13)], device=device)
    bins = torch.multinomial(shares, min(count, rows), replacement=True, generator=generator)
    low = torch.pow(2, bins)
    extra = torch.rand(bins.numel(), generator=generator, device=device) * low
    counts = low + extra.long()
    ranks = torch.repeat_interleave(torch.arange(counts.numel(), device=device), counts)[:count]
    if ranks.numel() < count:
        ranks = torch.cat([ranks, uniform(count - ranks.numel(), rows, generator, device)])
    order = torch.randperm(count, generator=generator, device=device)
    return _scatter(ranks[order], rows, generator)


def draw(name, count, rows, generator, device):
    """`count` int64 indices into `rows` rows; name is uniform, unique, zipf-A or binned-D."""
    kind, _, value = name.partition("-")
    if kind == "zipf":
        return zipf(count, rows, generator, device, float(value))
    if kind == "binned":
        return binned(count, rows, generator, device, float(value))
    return {"uniform": uniform, "unique": unique}[kind](count, rows, generator, device)


def bag_lengths(kind, bags, mean, generator, device):
    """Lookups of each bag: all alike, or uniform from 0 to twice the mean (`ragged`)."""
    torch = import_torch()
    if kind == "fixed":
        return torch.full((bags,), mean, dtype=torch.int64, device=device)
    return torch.randint(2 * mean + 1, (bags,), generator=generator, device=device)
