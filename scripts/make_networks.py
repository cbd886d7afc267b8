#!/usr/bin/env python3
"""Writes traces/networks/*.yaml: networks as graphs of operators for `foretrace place`.

  scripts/make_networks.py [FOLDER]

Residual networks as published: ResNet-50 (He et al., arXiv 1512.03385, table 1; stride in the 3x3
convolution), ResNeXt-50 32x4d (Xie et al., arXiv 1611.05431, table 1), 3D-ResNet-50 (Hara et al.,
arXiv 1711.09577, table 1). Batch normalisation is folded into the convolutions, as inference
compilers do. Without a suffix: the residual stages alone, which is what Collage measured; `-whole`:
with stem, pooling and classifier.

The other workloads of Collage, layer by layer as its programs have them (github.com/
cmu-catalyst/collage, python/collage/workloads/baselines/pytorch): bert and nasrnn (of TASO),
bert_full, dcgan, nasneta, mobilenet_v2. Inputs that are weights are written "*".
"""
import itertools
import math
import pathlib
import sys

STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))


class Network:
    def __init__(self, name, description):
        self.lines = [f"name: {name}", "description: '" + description.replace("'", "''") + "'",
                      "source: scripts/make_networks.py", "dtype: float32", "ops:"]
        self.name = name
        self.shapes = {}

    def add(self, name, op, inputs, shape, output=None, **attributes):
        """`shape`: of the first input; `output`: where it is another."""
        output = list(shape) if output is None else list(output)
        line = (f"  - {{name: {name}, op: {op}, inputs: [{', '.join(inputs)}], "
                f"shape: {list(shape)}, output: {output}")
        if attributes:
            line += ", attributes: {" + ", ".join(f"{k}: {v}" for k, v in attributes.items()) + "}"
        self.lines.append((line + "}").replace("*", '"*"'))
        self.shapes[name] = output
        return name

    def write(self, folder):
        (folder / f"{self.name}.yaml").write_text("\n".join(self.lines) + "\n")

    # Operators by what they compute; `x` is the name of a result, or (None, shape) for an input.
    def shape_of(self, x):
        return self.shapes[x] if isinstance(x, str) else x[1]

    @staticmethod
    def name_of(x):
        return x if isinstance(x, str) else "*"

    def conv(self, name, x, out, kernel, stride=1, padding=None, groups=1):
        shape = self.shape_of(x)
        dimensions = len(shape) - 2
        padding = kernel // 2 if padding is None else padding
        kernels, strides, paddings = ([v] * dimensions if isinstance(v, int) else v
                                      for v in (kernel, stride, padding))
        sizes = [(s + 2 * p - k) // t + 1
                 for s, p, k, t in zip(shape[2:], paddings, kernels, strides)]
        layout = "DHW"[3 - dimensions:]
        return self.add(name, f"conv{dimensions}d", [self.name_of(x), "*"], shape,
                        [shape[0], out] + sizes, strides=by(strides), padding=by(paddings * 2),
                        dilation=by([1] * dimensions), groups=groups, channels=out,
                        kernel_size=by(kernels), data_layout="NC" + layout,
                        kernel_layout="OI" + layout)

    def pool(self, name, x, kind, kernel, stride, padding, sizes=None):
        shape = self.shape_of(x)
        dimensions = len(shape) - 2
        sizes = sizes or [(s + 2 * padding - kernel) // stride + 1 for s in shape[2:]]
        attributes = {"ceil_mode": 0}
        if kind == "avgpool":
            attributes["count_include_pad"] = 0
        return self.add(name, f"{kind}{dimensions}d", [self.name_of(x)], shape, shape[:2] + sizes,
                        **attributes, layout="NC" + "DHW"[3 - dimensions:],
                        padding=by([padding] * 2 * dimensions), pool_size=by([kernel] * dimensions),
                        strides=by([stride] * dimensions))

    def pointwise(self, name, op, *inputs, **attributes):
        return self.add(name, op, [self.name_of(x) for x in inputs], self.shape_of(inputs[0]),
                        **attributes)

    def dense(self, name, x, out):
        shape = self.shape_of(x)
        return self.add(name, "dense", [self.name_of(x), "*"], shape, shape[:-1] + [out],
                        units="None")

    def reshape(self, name, x, output):
        return self.add(name, "reshape", [self.name_of(x)], self.shape_of(x), output,
                        newshape=by(output))

    def transpose(self, name, x, axes):
        shape = self.shape_of(x)
        return self.add(name, "transpose", [self.name_of(x)], shape, [shape[a] for a in axes],
                        axes=by(axes))

    def matmul(self, name, a, b):
        """b is [batch, columns, depth], as relay has it."""
        left, right = self.shape_of(a), self.shape_of(b)
        return self.add(name, "batch_matmul", [self.name_of(a), self.name_of(b)], left,
                        [left[0], left[1], right[1]])


def by(values):
    return "x".join(str(v) for v in values)


class Residual:
    """Bottleneck stages on images of two or three dimensions."""

    def __init__(self, network, start, groups, width):
        self.network, self.groups, self.width, self.last = network, groups, width, start
        self.channels = network.shape_of(start)[1]

    def relu(self, name, x):
        return self.network.pointwise(name, "relu", x)

    def block(self, name, planes, stride):
        net, inner, out = self.network, planes * self.width // 64 * self.groups, planes * 4
        source = self.last
        a = self.relu(f"{name}.relu1", net.conv(f"{name}.conv1", source, inner, 1))
        b = net.conv(f"{name}.conv2", a, inner, 3, stride, groups=self.groups)
        b = self.relu(f"{name}.relu2", b)
        c = net.conv(f"{name}.conv3", b, out, 1)
        shortcut = source
        if stride > 1 or self.channels != out:
            shortcut = net.conv(f"{name}.down", source, out, 1, stride)
        self.last = self.relu(f"{name}.relu3", net.pointwise(f"{name}.add", "add", c, shortcut))
        self.channels = out

    def stages(self):
        for stage, (blocks, planes) in enumerate(STAGES, 1):
            for block in range(blocks):
                self.block(f"s{stage}b{block + 1}", planes, 2 if stage > 1 and block == 0 else 1)
        return self.last


def residual(name, description, sizes, groups=1, width=64):
    network = Network(name, description + ", residual stages, batch 1")
    Residual(network, (None, [1, 64] + sizes), groups, width).stages()
    return network


def whole_residual(name, description, sizes, groups=1, width=64, classes=1000):
    """With the stem (convolution of 7 and maximum pooling, both of stride 2), mean pooling and the
    classifier. The stem of the network for videos keeps the time axis in its convolution (stride 1
    there; Hara et al., section 3.2)."""
    net = Network(name, description + ", batch 1")
    flat = len(sizes) == 2
    stem = net.conv("stem", (None, [1, 3] + sizes), 64, 7, 2 if flat else [1, 2, 2])
    x = net.pool("maxpool", net.pointwise("stem.relu", "relu", stem), "maxpool", 3, 2, 1)
    x = Residual(net, x, groups, width).stages()
    left = net.shape_of(x)[2:]
    x = net.add("avgpool", "global_avgpool", [x], net.shape_of(x), net.shape_of(x)[:2] + [1] * len(left))
    x = net.reshape("flatten", x, [1, net.shape_of(x)[1]])
    net.add("bias", "biasadd", [net.dense("classifier", x, classes), "*"], [1, classes], axis=1)
    return net


def bert():
    """TASO's, of which Collage's logs hold the times: 8 layers, 16 heads, 64 tokens of 1,024."""
    net = Network("bert", "BERT as TASO and Collage measure it: 8 layers, 16 heads, 64 x 1024")
    x = (None, [64, 1024])
    for i in range(8):
        q, k, v = (net.reshape(f"l{i}.{n}.heads", net.dense(f"l{i}.{n}", x, 1024), [64, 16, 64])
                   for n in "qkv")
        q = net.transpose(f"{q}.t", q, [1, 0, 2])
        # relay's GEMM takes its second operand transposed.
        k, v = (net.transpose(f"{n}.t", n, [1, 2, 0]) for n in (k, v))
        logits = net.matmul(f"l{i}.logits", q, k)
        x = net.transpose(f"l{i}.merge", net.matmul(f"l{i}.context", logits, v), [1, 0, 2])
        x = net.reshape(f"l{i}.flat", x, [64, 1024])
        x = net.pointwise(f"l{i}.relu", "relu", net.dense(f"l{i}.up", x, 4096))
        x = net.dense(f"l{i}.down", x, 1024)
    return net


def norm(net, name, x):
    """a (x - mean) / (std + eps) + b, as Collage's program spells it."""
    shape = net.shape_of(x)
    row = shape[:-1] + [1]
    mean = net.add(f"{name}.mean", "mean", [x if isinstance(x, str) else "*"], shape, row, axis=-1)
    delta = net.pointwise(f"{name}.delta", "subtract", x, mean)
    square = net.pointwise(f"{name}.square", "multiply", delta, delta)
    variance = net.add(f"{name}.variance", "mean", [square], shape, row, axis=-1)
    std = net.add(f"{name}.std", "sqrt", [variance], row)
    std = net.add(f"{name}.eps", "add", [std, "*"], row)
    scaled = net.add(f"{name}.gain", "multiply", [delta, "*"], shape)
    scaled = net.add(f"{name}.divide", "divide", [scaled, std], shape)
    return net.add(f"{name}.shift", "add", [scaled, "*"], shape)


def bert_full():
    net = Network("bert_full", "BERT of Collage's figures: 8 layers, 8 heads, 64 x 256, with norms")
    tokens, hidden, heads = 64, 256, 8
    x = (None, [tokens, hidden])

    def linear(name, source, out):
        gemm = net.dense(name, source, out)
        return net.add(f"{name}.bias", "add", [gemm, "*"], net.shape_of(gemm))

    for i in range(8):
        y = norm(net, f"l{i}.norm1", x)
        parts = {}
        for n in "qkv":
            part = net.reshape(f"l{i}.{n}.heads", linear(f"l{i}.{n}", y, hidden),
                               [tokens, heads, hidden // heads])
            parts[n] = net.transpose(f"l{i}.{n}.t", part, [1, 2, 0] if n == "v" else [1, 0, 2])
        scores = net.matmul(f"l{i}.scores", parts["q"], parts["k"])
        scores = net.add(f"l{i}.scale", "divide", [scores, "*"], net.shape_of(scores))
        scores = net.add(f"l{i}.softmax", "softmax", [scores], net.shape_of(scores), axis=-1)
        context = net.transpose(f"l{i}.merge", net.matmul(f"l{i}.context", scores, parts["v"]),
                                [1, 0, 2])
        context = net.reshape(f"l{i}.flat", context, [tokens, hidden])
        y = linear(f"l{i}.out", context, hidden)
        x = net.add(f"l{i}.add1", "add", [net.name_of(x), y], [tokens, hidden])
        y = net.pointwise(f"l{i}.relu", "relu", linear(f"l{i}.up", norm(net, f"l{i}.norm2", x),
                                                      4 * hidden))
        x = net.pointwise(f"l{i}.add2", "add", x, linear(f"l{i}.down", y, hidden))
    return net


def dcgan():
    net = Network("dcgan", "DCGAN of Collage: generator of 256 x 256 images and discriminator")

    def conv(name, x, out, stride=1, activation="relu"):
        c = net.conv(name, x, out, 3, stride, 1)
        c = net.add(f"{name}.bias", "biasadd", [c, "*"], net.shape_of(c), axis=1)
        return net.pointwise(f"{name}.{activation}", activation, c)

    def twice(name, x):
        n, c, h, w = net.shape_of(x)
        return net.add(name, "upsampling", [x], [n, c, h, w], [n, c, 2 * h, 2 * w])

    def linear(name, x, out):
        return net.add(f"{name}.bias", "add", [net.dense(name, x, out), "*"], [1, out])

    x = net.reshape("g.image", linear("g.linear", (None, [1, 100]), 128 * 64 * 64),
                    [1, 128, 64, 64])
    x = conv("g.conv1", twice("g.up1", x), 128)
    x = conv("g.conv2", twice("g.up2", x), 64)
    x = conv("g.conv3", x, 3, activation="tanh")
    for i, channels in enumerate((16, 32, 64, 128), 1):
        x = conv(f"d.conv{i}", x, channels, 2)
    x = net.reshape("d.flat", x, [1, math.prod(net.shape_of(x))])
    net.pointwise("d.sigmoid", "sigmoid", linear("d.linear", x, 1))
    return net


class Nas:
    def __init__(self):
        self.net = Network("nasneta", "NASNet-A of TASO and Collage: 64 channels, cells of 5, 5, 5")

    def squeeze(self, name, x, out):
        net = self.net
        c = net.conv(name, x, out, 1)
        c = net.add(f"{name}.bias", "biasadd", [c, "*"], net.shape_of(c), axis=1)
        return net.pointwise(f"{name}.relu", "relu", c)

    def separable(self, name, x, kernel, stride):
        net, channels = self.net, self.net.shape_of(x)[1]
        d = net.conv(f"{name}.depth", x, channels, kernel, stride, groups=channels)
        return net.conv(f"{name}.point", d, channels, 1)

    def join(self, name, sums):
        net = self.net
        shape = net.shape_of(sums[0])
        return net.add(name, "concat", sums, shape, [1, 5 * shape[1]] + shape[2:], axis=1)

    def normal(self, name, prev, cur, out):
        net = self.net
        cur, prev = self.squeeze(f"{name}.cur", cur, out), self.squeeze(f"{name}.prev", prev, out)

        def sep(i, x):
            return self.separable(f"{name}.sep{i}", x, 3, 1)

        def pool(i, x):
            return net.pool(f"{name}.pool{i}", x, "avgpool", 3, 1, 1)
        pairs = ((sep(0, cur), cur), (sep(1, prev), sep(2, cur)), (pool(0, cur), prev),
                 (pool(1, prev), pool(2, prev)), (sep(3, prev), sep(4, prev)))
        sums = [net.pointwise(f"{name}.add{i}", "add", *pair) for i, pair in enumerate(pairs)]
        return self.join(f"{name}.concat", sums)

    def reduction(self, name, prev, cur, out):
        net = self.net
        cur, prev = self.squeeze(f"{name}.cur", cur, out), self.squeeze(f"{name}.prev", prev, out)

        def add(i, a, b):
            return net.pointwise(f"{name}.add{i}", "add", a, b)

        first = add(0, self.separable(f"{name}.sep7a", prev, 7, 2),
                    self.separable(f"{name}.sep5a", cur, 5, 2))
        second = add(1, net.pool(f"{name}.max0", cur, "maxpool", 3, 2, 1),
                     self.separable(f"{name}.sep7b", prev, 7, 2))
        third = add(2, net.pool(f"{name}.avg0", cur, "avgpool", 3, 2, 1),
                    self.separable(f"{name}.sep5b", prev, 5, 2))
        fourth = add(3, net.pool(f"{name}.max1", cur, "maxpool", 3, 2, 1),
                     self.separable(f"{name}.sep3", first, 3, 1))
        fifth = add(4, net.pool(f"{name}.avg1", first, "avgpool", 3, 1, 1), second)
        return self.join(f"{name}.concat", [first, second, third, fourth, fifth])

    def build(self):
        prev = cur = (None, [1, 64, 56, 56])
        for group, channels in enumerate((64, 128, 256)):
            if group > 0:
                prev = cur = self.reduction(f"r{group}", prev, cur, channels)
            for cell in range(5):
                prev, cur = cur, self.normal(f"n{group}c{cell}", prev, cur, channels)
        return self.net


def mobilenet_v2():
    net = Network("mobilenet_v2", "MobileNetV2 of Collage, from its first 32 channels of 224 x 224")
    settings = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                (6, 160, 3, 2), (6, 320, 1, 1))
    x, block = (None, [1, 32, 224, 224]), 0
    for expand, out, count, first_stride in settings:
        for i in range(count):
            source, name = x, f"b{block}"
            stride = first_stride if i == 0 else 1
            channels = net.shape_of(x)[1]
            inner = channels * expand
            if expand > 1:
                x = net.pointwise(f"{name}.relu1", "relu", net.conv(f"{name}.expand", x, inner, 1))
            x = net.conv(f"{name}.depth", x, inner, 3, stride, groups=inner)
            x = net.conv(f"{name}.project", net.pointwise(f"{name}.relu2", "relu", x), out, 1)
            if stride == 1 and channels == out:
                x = net.pointwise(f"{name}.add", "add", x, source)
            block += 1
    net.pointwise("last.relu", "relu", net.conv("last", x, 1280, 1))
    return net


def nasrnn():
    net = Network("nasrnn", "NASRNN of TASO and Collage: 5 steps of a cell, 2560 wide")
    size, x = 2560, (None, [1, 2560])
    for step in range(5):
        def node(i):
            name = f"t{step}.n{i}"
            a = net.pointwise(f"{name}.relu1", "relu", net.dense(f"{name}.x", x, size))
            b = net.pointwise(f"{name}.relu2", "relu",
                              net.dense(f"{name}.h", (None, [1, size]), size))
            return net.pointwise(f"{name}.add", "add", a, b)
        t = [node(i) for i in range(8)]

        count = itertools.count(1)

        def f(kind, a):
            return net.pointwise(f"t{step}.{kind}{next(count)}", kind, a)
        pairs = (("add", "relu", t[0], "sigmoid", t[3]), ("add", "sigmoid", t[1], "tanh", t[2]),
                 ("multiply", "sigmoid", t[4], "tanh", t[5]),
                 ("multiply", "sigmoid", t[6], "relu", t[7]))
        mid = [net.pointwise(f"t{step}.m{i}", op, f(u, a), f(v, b))
               for i, (op, u, a, v, b) in enumerate(pairs)]
        mid.append(net.pointwise(f"t{step}.m4", "add", f("sigmoid", mid[1]), f("tanh", mid[2])))
        mid.append(net.pointwise(f"t{step}.m5", "multiply", f("tanh", mid[0]), f("tanh", mid[3])))
        mid.append(net.pointwise(f"t{step}.m6", "multiply", f("tanh", mid[4]), f("tanh", mid[5])))
        x = f("tanh", mid[6])
    return net


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else root / "traces" / "networks"
    folder.mkdir(parents=True, exist_ok=True)
    for network in (
            residual("resnet50", "ResNet-50", [56, 56]),
            residual("resnext50_32x4d", "ResNeXt-50 32x4d", [56, 56], 32, 4),
            residual("resnet50_3d", "3D-ResNet-50, features of 3x56x56", [3, 56, 56]),
            whole_residual("resnet50-whole", "ResNet-50, images of 224x224", [224, 224]),
            whole_residual("resnext50_32x4d-whole", "ResNeXt-50 32x4d, images of 224x224",
                           [224, 224], 32, 4),
            whole_residual("resnet50_3d-whole", "3D-ResNet-50, 16 frames of 112x112",
                           [16, 112, 112], classes=400),
            bert(), bert_full(), dcgan(), Nas().build(), mobilenet_v2(), nasrnn()):
        network.write(folder)


if __name__ == "__main__":
    main()
