#!/usr/bin/env python3
"""Times embedding lookups, forward, backward and sparse update, over tables, batch, rows, width,
pooling factor and reuse of rows.

Each point has its own seed; its reuse factors are computed from the very indices that are looked up.
Writes the neutral CSV schema (README.md); on an existing table it measures only what is missing.
"""
import os
import random
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from support import indices as index_draws  # noqa: E402
from support.device import library_name, pick_device, platform_name, provenance, torch_dtype  # noqa: E402
from support.kernel_shapes import log_uniform  # noqa: E402
from support.measure import measure_all  # noqa: E402
from support.run import Budget, benchmark_parser, import_torch, run_main, scale_of  # noqa: E402
from support.table import TableWriter, make_row, shape_text  # noqa: E402
from support.timing import Job, add_timing_option, make_timer  # noqa: E402

SOURCE = "foretrace scripts/capture/bench_embedding.py"
POINTS = {"full": 1600, "quick": 60, "tiny": 4}
# Elements of all tables, and elements that all lookups together read.
LIMITS = {"full": (1 << 30, 1 << 30), "quick": (1 << 26, 1 << 26), "tiny": (1 << 15, 1 << 15)}
DISTRIBUTIONS = ("uniform", "uniform", "unique", "zipf-0.6", "zipf-0.8", "zipf-1.0", "zipf-1.05",
                 "zipf-1.2", "zipf-1.5", "binned-0.35", "binned-0.6", "binned-0.9")


def draw_point(scale, seed, number):
    """The parameters of one point, a function of seed and number alone."""
    rng = random.Random("%d/embedding/%d" % (seed, number))
    tables_limit, lookups_limit = LIMITS[scale]
    while True:
        tiny = scale == "tiny"
        point = dict(
            number=number, tables=rng.choice((1, 2) if tiny else (1, 1, 2, 4, 8, 13, 26)),
            b=rng.choice((4, 16) if tiny else (128, 256, 512, 1024, 2048, 4096, 8192, 16384)),
            e=log_uniform(rng, 8, 256) if tiny else log_uniform(rng, 64, 20_000_000),
            d=rng.choice((8, 16) if tiny else (16, 32, 64, 64, 128, 128, 256)),
            l=log_uniform(rng, 1, 4 if tiny else 100), weights=int(rng.random() < 0.15),
            lengths=rng.choice(("fixed", "fixed", "ragged")), indices=rng.choice(DISTRIBUTIONS),
            dtype=rng.choice(("float32", "float32", "float32", "float32", "float16", "bfloat16")),
            impl=rng.choice(("loop", "concat", "concat")), sparse=rng.random() < 0.5)
        if (point["tables"] * point["e"] * point["d"] <= tables_limit and
                point["tables"] * point["b"] * point["l"] * point["d"] <= lookups_limit):
            return point


class Lookup:
    """Tables, indices and offsets of one point on the device.

    impl=loop is nn.EmbeddingBag(mode="sum") table by table, as PyTorch models run it.
    impl=concat is one lookup in the concatenated tables with shifted indices: the batched form that
    fused libraries use, through PyTorch's own kernel.
    """

    def __init__(self, point, seed, device, grad):
        torch = import_torch()
        self.point, self.device, self.grad = point, device, grad
        self.dtype = torch_dtype(point["dtype"])
        generator = torch.Generator(device=device)
        generator.manual_seed(seed * 1_000_003 + point["number"])
        tables, bags, rows = point["tables"], point["b"], point["e"]
        self.indices, self.offsets, factors, lookups = [], [], [], 0
        for _ in range(tables):
            lengths = index_draws.bag_lengths(point["lengths"], bags, point["l"], generator, device)
            count = int(lengths.sum())
            drawn = index_draws.draw(point["indices"], count, rows, generator, device)
            factors.append(index_draws.reuse_factors(drawn, rows))
            self.indices.append(drawn)
            self.offsets.append(torch.cumsum(lengths, 0) - lengths)
            lookups += count
        self.shape = dict(tables=tables, b=bags, e=rows, d=point["d"],
                          l=point["l"] if point["lengths"] == "fixed" else lookups / (tables * bags),
                          weights=point["weights"], rf=index_draws.reuse_text(factors))
        if point["impl"] == "concat":
            self._concatenate()
        sizes = [rows] * tables if point["impl"] == "loop" else [rows * tables]
        self.weights = [torch.empty(size, point["d"], dtype=self.dtype, device=device)
                        .uniform_(-0.1, 0.1).requires_grad_(grad != "none") for size in sizes]
        self.sample_weights = [torch.rand(i.numel(), dtype=self.dtype, device=device)
                               if point["weights"] else None for i in self.indices]

    def _concatenate(self):
        torch = import_torch()
        bases = torch.cumsum(torch.tensor([0] + [i.numel() for i in self.indices[:-1]]), 0).tolist()
        self.offsets = [torch.cat([o + base for o, base in zip(self.offsets, bases)])]
        rows = self.point["e"]
        self.indices = [torch.cat([i + t * rows for t, i in enumerate(self.indices)])]

    def forward(self):
        bag = import_torch().nn.functional.embedding_bag
        return [bag(i, w, o, mode="sum", sparse=self.grad == "sparse", per_sample_weights=s)
                for i, w, o, s in zip(self.indices, self.weights, self.offsets, self.sample_weights)]

    def call(self, phase):
        """The call to time: lookup; gradient of the tables; or SGD update with sparse gradients."""
        torch = import_torch()
        if phase == "forward":
            def forward():
                with torch.no_grad():
                    return self.forward()
            return forward
        outputs = self.forward()
        grads = [torch.ones_like(out) for out in outputs]

        def backward():
            return torch.autograd.grad(outputs, self.weights, grads, retain_graph=True)
        if phase == "backward":
            return backward
        gradients = backward()

        def update():
            with torch.no_grad():
                for weight, gradient in zip(self.weights, gradients):
                    weight.add_(gradient, alpha=-0.01)
        return update


def make_jobs(options, device, timing):
    """Forward and dense backward of every point; sparse backward and update of every second."""
    scale, platform = scale_of(options), platform_name(device, options.platform)
    jobs = []
    for number in range(options.points or POINTS[scale]):
        point = draw_point(scale, options.seed, number)
        if device.type == "cpu":
            point["dtype"] = "float32"
        wanted = [("forward", "none"), ("backward", "dense")]
        if point["sparse"]:
            wanted += [("backward", "sparse"), ("optimizer", "sparse")]
        jobs += [_job(point, phase, grad, timing, platform, options, device) for phase, grad in wanted]
    return jobs


def _job(point, phase, grad, timing, platform, options, device):
    cache = "cold" if device.type == "cuda" else "-"
    library = "%s;timing=%s;l2=%s;impl=%s;grad=%s" % (library_name(), timing, cache, point["impl"], grad)
    source = "%s;size=%s;seed=%d;point=%d;indices=%s" % (
        SOURCE, scale_of(options), options.seed, point["number"], point["indices"])
    placeholder = dict({key: point[key] for key in ("tables", "b", "e", "d", "l", "weights")}, rf="0")
    row = make_row("embedding", "embedding", phase, platform, point["dtype"], placeholder, library, source)

    def build():
        lookup = Lookup(point, options.seed, device, grad)
        row["shape"] = shape_text("embedding", lookup.shape)
        return lookup.call(phase)
    return Job(row, build, cold=cache == "cold")


def point_key(row):
    """A row's identity before its indices are drawn: the point's number stands for its shape."""
    return tuple(row[c] for c in ("phase", "platform", "dtype", "library", "source"))


def main():
    parser = benchmark_parser(__doc__)
    parser.add_argument("--points", type=int, default=0, help="number of points; 0: by the size switch")
    add_timing_option(parser)
    options = parser.parse_args()
    budget = Budget(options.budget_seconds)
    device = pick_device(options.device)
    import_torch().manual_seed(options.seed)
    timer = make_timer(device, options)
    table = TableWriter(options.output, provenance(
        device, options, SOURCE,
        {"timing": "%s; time_us is the median, std_us the standard deviation over repeats" % timer.name,
         "lookup": "PyTorch embedding_bag, sum; impl=loop: one call a table, impl=concat: one call over "
                   "concatenated tables; grad=sparse backward makes the sparse gradient, optimizer "
                   "applies it (SGD)"}), key=point_key)
    measure_all(make_jobs(options, device, timer.name), timer, table, options, budget)
    return 0


if __name__ == "__main__":
    run_main(main)
