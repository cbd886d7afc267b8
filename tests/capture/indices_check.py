"""Checks of support/indices.py that need PyTorch; run by test_scripts.py, fails by an assertion."""
import support_path  # noqa: F401
import torch
from support.indices import draw, reuse_factors


def factors(*counts):
    """Reuse factors of indices in which row r occurs counts[r] times."""
    return reuse_factors(torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts)),
                         len(counts))


# Three rows once, four twice, one four times: bins [1,2) [2,4) [4,8) hold 3/8, 4/8, 1/8.
assert factors(1, 1, 1, 2, 2, 2, 2, 4)[:4] == [0, 3 / 8, 4 / 8, 1 / 8]
# Both ends of bins.
assert factors(3, 3)[2] == 1 and factors(7)[3] == 1 and factors(8)[4] == 1
assert factors(32767)[15] == 1 and factors(32768)[16] == 1 and factors(100000)[16] == 1
# Rows that are not accessed do not count.
assert factors(0, 5)[3] == 1 and sum(factors(0, 5)) == 1
assert reuse_factors(torch.empty(0, dtype=torch.int64), 5) == [0.0] * 17

generator, cpu, hottest = torch.Generator().manual_seed(1), torch.device("cpu"), {}
for name in "uniform unique zipf-0.6 zipf-1.0 zipf-1.5 binned-0.35 binned-0.9".split():
    drawn = draw(name, 5000, 20000, generator, cpu)
    assert drawn.numel() == 5000 and drawn.min() >= 0 and drawn.max() < 20000, name
    hottest[name] = int(torch.bincount(drawn).max())
assert hottest["unique"] == 1 and hottest["uniform"] < 10
assert hottest["zipf-0.6"] < hottest["zipf-1.0"] < hottest["zipf-1.5"]
assert int(draw("zipf-1.0", 10, 1, generator, cpu).max()) == 0
# Zipf 1: the share of the hottest of E rows is about ln 2 / ln E (the continuous distribution on [1,2)).
share = torch.bincount(draw("zipf-1.0", 200000, 1000, generator, cpu)).max().item() / 200000
assert abs(share - 0.6931 / 6.9078) < 0.01, share
