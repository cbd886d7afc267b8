"""Which shapes the kernel benchmark measures; standard library only.

Half of the GEMM shapes come from layer sizes of models in use (transformers, DLRM, vision), half are
drawn log-uniformly, so that a fit sees both what is asked for and the range around it.
"""
import itertools
import math
import random

# (rows a model's layers have: hidden sizes and their products)
_HIDDEN = (256, 512, 768, 1024, 1280, 1600, 2048, 2560, 3072, 4096, 5120, 6144, 8192, 12288)
_TOKENS = (128, 256, 512, 1024, 2048, 4096, 8192, 16384)
_DLRM_MLP = ((13, 512), (512, 256), (256, 64), (512, 1024), (1024, 1024), (1024, 512), (256, 1),
             (64, 16), (479, 1024), (128, 128))

# Work that one shape may hold: multiply-adds times two, and elements of its tensors together.
LIMITS = {"full": (4e11, 4 << 28), "quick": (4e10, 1 << 27), "tiny": (1e6, 1 << 15)}
COUNTS = {"full": 320, "quick": 32, "tiny": 3}
MEMORY_COUNTS = {"full": 110, "quick": 12, "tiny": 2}


def log_uniform(rng, low, high, multiple=1):
    """An integer drawn log-uniformly from [low, high], rounded to a multiple."""
    value = math.exp(rng.uniform(math.log(low), math.log(high)))
    return max(multiple, int(round(value / multiple)) * multiple)


def _fill(count, structured, draw, fits, rng):
    """`count` different shapes that fit: up to half structured, the others drawn."""
    structured = [s for s in structured if fits(s)]
    rng.shuffle(structured)
    chosen = dict.fromkeys(tuple(sorted(s.items())) for s in structured[:count // 2])
    for _ in range(200 * count):
        if len(chosen) >= count:
            break
        shape = draw()
        if fits(shape):
            chosen[tuple(sorted(shape.items()))] = None
    return [dict(items) for items in chosen]


def linear(scale, rng):
    flop, elements = LIMITS[scale]
    structured = []
    for h, t in itertools.product(_HIDDEN, _TOKENS):
        structured += [dict(m=t, n=n, k=k, bias=1) for n, k in ((h, h), (3 * h, h), (4 * h, h), (h, 4 * h))]
    for (k, n), b in itertools.product(_DLRM_MLP, (512, 1024, 2048, 4096, 8192)):
        structured.append(dict(m=b, n=n, k=k, bias=1))
    top = 64 if scale == "tiny" else 16384

    def draw():
        multiple = rng.choice((1, 8, 64, 128))
        return dict(m=log_uniform(rng, 16, 2 * top), n=log_uniform(rng, 16, top, multiple),
                    k=log_uniform(rng, 16, top, multiple), bias=rng.choice((0, 1, 1)))

    def fits(s):
        return (2.0 * s["m"] * s["n"] * s["k"] <= flop and
                s["m"] * s["n"] + s["m"] * s["k"] + s["n"] * s["k"] <= elements)
    return _fill(COUNTS[scale], structured, draw, fits, rng)


def bmm(scale, rng):
    flop, elements = LIMITS[scale]
    structured = []
    for batch, heads, s, d in itertools.product((1, 4, 8, 16, 32), (12, 16, 32),
                                                (128, 256, 512, 1024, 2048), (64, 128)):
        structured += [dict(b=batch * heads, m=s, n=s, k=d), dict(b=batch * heads, m=s, n=d, k=s)]
    structured += [dict(b=b, m=f, n=f, k=d) for b, f, d in
                   itertools.product((512, 1024, 2048, 4096), (9, 27, 40), (16, 32, 64, 128))]
    top = 32 if scale == "tiny" else 2048

    def draw():
        multiple = rng.choice((1, 8, 64))
        return dict(b=log_uniform(rng, 1, 8 if scale == "tiny" else 4096),
                    m=log_uniform(rng, 8, top, multiple), n=log_uniform(rng, 8, top, multiple),
                    k=log_uniform(rng, 8, top, multiple))

    def fits(s):
        return (2.0 * s["b"] * s["m"] * s["n"] * s["k"] <= flop and s["b"] *
                (s["m"] * s["n"] + s["m"] * s["k"] + s["n"] * s["k"]) <= elements)
    return _fill(COUNTS[scale], structured, draw, fits, rng)


# ResNet-50's convolutions: channels in, channels out, kernel, stride, size of the input image.
_RESNET = ((3, 64, 7, 2, 224), (64, 64, 1, 1, 56), (64, 64, 3, 1, 56), (64, 256, 1, 1, 56),
           (256, 64, 1, 1, 56), (256, 128, 1, 1, 56), (128, 128, 3, 2, 56), (128, 512, 1, 1, 28),
           (256, 512, 1, 2, 56), (512, 128, 1, 1, 28), (128, 128, 3, 1, 28), (512, 256, 1, 1, 28),
           (256, 256, 3, 2, 28), (256, 1024, 1, 1, 14), (512, 1024, 1, 2, 28),
           (1024, 256, 1, 1, 14), (256, 256, 3, 1, 14), (1024, 512, 1, 1, 14),
           (512, 512, 3, 2, 14), (512, 2048, 1, 1, 7), (1024, 2048, 1, 2, 14),
           (2048, 512, 1, 1, 7), (512, 512, 3, 1, 7))


def conv2d(scale, rng):
    flop, elements = LIMITS[scale]
    structured = [dict(n=n, c=c, h=h, w=h, k=k, r=r, s=r, stride=st, pad=r // 2, dilation=1, groups=1)
                  for (c, k, r, st, h), n in itertools.product(_RESNET, (1, 8, 16, 32, 64, 128))]
    top_channels, top_side, top_batch = (8, 12, 2) if scale == "tiny" else (1024, 224, 128)

    def draw():
        r = rng.choice((1, 1, 3, 3, 3, 5, 7))
        side = log_uniform(rng, 7, top_side)
        groups = rng.choice((1, 1, 1, 1, 0))
        channels = log_uniform(rng, 4, top_channels, 4)
        shape = dict(n=log_uniform(rng, 1, top_batch), c=channels, h=side, w=side,
                     k=log_uniform(rng, 4, top_channels, 4), r=r, s=r, stride=rng.choice((1, 1, 2)),
                     pad=r // 2, dilation=1, groups=1)
        if groups == 0:  # depthwise
            shape.update(k=channels, groups=channels)
        return shape

    def fits(s):
        p = (s["h"] + 2 * s["pad"] - s["r"]) // s["stride"] + 1
        work = 2.0 * s["n"] * s["k"] * p * p * s["c"] // s["groups"] * s["r"] * s["s"]
        return (work <= flop and s["n"] * (s["c"] * s["h"] * s["w"] + s["k"] * p * p) <= elements)
    return _fill(COUNTS[scale], structured, draw, fits, rng)


def attention(scale, rng):
    flop, elements = LIMITS[scale]
    tiny = scale == "tiny"

    def draw():
        heads = rng.choice((2,) if tiny else (8, 12, 16, 20, 32, 64))
        s = rng.choice((8, 16) if tiny else (128, 256, 512, 1024, 2048, 4096))
        kv = heads // rng.choice((1, 1, 1, 2, 4)) if heads % 4 == 0 else heads
        return dict(b=rng.choice((1, 2) if tiny else (1, 2, 4, 8, 16, 32)), heads=heads, kv_heads=kv,
                    sq=s, skv=s, d=rng.choice((8,) if tiny else (64, 80, 96, 128)),
                    causal=rng.choice((0, 1)), impl=rng.choice(("flash", "math")))

    def fits(s):
        scores = s["b"] * s["heads"] * s["sq"] * s["skv"]
        return 4.0 * scores * s["d"] <= flop and (scores <= elements or s["impl"] == "flash")
    return _fill(max(COUNTS[scale] * 3 // 4, 3), [], draw, fits, rng)


def rows_by_columns(scale, rng, low_cols=16, high_cols=65536):
    _, elements = LIMITS[scale]
    structured = [dict(rows=t * b, cols=h) for t, b, h in
                  itertools.product(_TOKENS, (1, 4, 12), _HIDDEN)]

    def draw():
        return dict(rows=log_uniform(rng, 1, 1 << 20), cols=log_uniform(rng, low_cols, high_cols))
    return _fill(MEMORY_COUNTS[scale], structured, draw,
                 lambda s: s["rows"] * s["cols"] <= elements // 4, rng)


def batch_norm(scale, rng):
    _, elements = LIMITS[scale]
    structured = [dict(n=n, c=k, h=h // st, w=h // st)
                  for (_, k, _, st, h), n in itertools.product(_RESNET, (8, 16, 32, 64, 128))]
    top = (8, 16, 12) if scale == "tiny" else (256, 2048, 112)

    def draw():
        side = log_uniform(rng, 4, top[2])
        return dict(n=log_uniform(rng, 1, top[0]), c=log_uniform(rng, 4, top[1]), h=side, w=side)
    return _fill(MEMORY_COUNTS[scale], structured, draw,
                 lambda s: s["n"] * s["c"] * s["h"] * s["w"] <= elements // 4, rng)


def elements(scale, rng, count=None):
    """Element counts, spread evenly over the logarithm and then jittered."""
    top = LIMITS[scale][1] // 8
    count = count or MEMORY_COUNTS[scale]
    return sorted({int(256 * (top / 256.0) ** ((i + rng.random()) / count)) for i in range(count)})


def matrices(scale, rng):
    _, top = LIMITS[scale]

    def draw():
        return dict(b=log_uniform(rng, 1, 512), m=log_uniform(rng, 8, 8192), n=log_uniform(rng, 8, 8192))
    structured = [dict(b=b * h, m=s, n=d) for b, h, s, d in
                  itertools.product((1, 8, 32), (12, 16), (128, 512, 1024, 2048), (64, 128))]
    return _fill(MEMORY_COUNTS[scale], structured, draw,
                 lambda s: s["b"] * s["m"] * s["n"] <= top // 4, rng)


def picked_rows(scale, rng):
    _, top = LIMITS[scale]

    def draw():
        return dict(n=log_uniform(rng, 16, 1 << 20), rows=log_uniform(rng, 64, 1 << 22),
                    cols=log_uniform(rng, 4, 1024))
    return _fill(MEMORY_COUNTS[scale], [], draw,
                 lambda s: max(s["n"], s["rows"]) * s["cols"] <= top // 8, rng)


def triangles(scale, rng):
    _, top = LIMITS[scale]

    def draw():
        return dict(n=log_uniform(rng, 4, 128), b=log_uniform(rng, 16, 16384))
    structured = [dict(n=n, b=b) for n, b in
                  itertools.product((9, 14, 27, 40), (512, 1024, 2048, 4096, 8192))]
    return _fill(MEMORY_COUNTS[scale], structured, draw,
                 lambda s: s["n"] * s["n"] * s["b"] <= top // 4, rng)


def copies(scale, rng):
    top = {"full": 1 << 30, "quick": 1 << 26, "tiny": 1 << 14}[scale]
    count = {"full": 30, "quick": 8, "tiny": 2}[scale]
    return sorted({int(64 * (top / 64.0) ** ((i + rng.random() * 0.5) / (count - 0.5)))
                   for i in range(count)})


def parameter_sets(scale, rng):
    """(parameters, tensors) that an optimizer steps over."""
    top = {"full": 1 << 29, "quick": 1 << 25, "tiny": 1 << 12}[scale]
    return _fill({"full": 40, "quick": 6, "tiny": 2}[scale], [],
                 lambda: dict(params=log_uniform(rng, 1 << 10, top), tensors=log_uniform(rng, 1, 512)),
                 lambda s: s["params"] >= 8 * s["tensors"], rng)


def seeded(seed, name):
    """An own random stream for each operator, so that adding one changes no other's shapes."""
    return random.Random("%d/%s" % (seed, name))
