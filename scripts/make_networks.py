#!/usr/bin/env python3
"""Writes traces/networks/*.yaml: networks as graphs of operators for `foretrace place`.

  scripts/make_networks.py [FOLDER]

Layers as published: ResNet-50 (He et al., arXiv 1512.03385, table 1; stride in the 3x3
convolution), ResNeXt-50 32x4d (Xie et al., arXiv 1611.05431, table 1), 3D-ResNet-50 (Hara et al.,
arXiv 1711.09577, table 1). Batch normalisation is folded into the convolutions, as inference
compilers do. Only the residual stages: stem, pooling and classifier are not in the public logs of
measured operators.
"""
import pathlib
import sys

STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))


class Network:
    def __init__(self, name, description):
        self.lines = [f"name: {name}", f"description: {description}",
                      "source: scripts/make_networks.py", "ops:"]
        self.name = name

    def add(self, name, op, inputs, shape, **attributes):
        line = f"  - {{name: {name}, op: {op}, inputs: [{', '.join(inputs)}], shape: {shape}"
        if attributes:
            line += ", attributes: {" + ", ".join(f"{k}: {v}" for k, v in attributes.items()) + "}"
        self.lines.append((line + "}").replace("*", '"*"'))
        return name

    def write(self, folder):
        (folder / f"{self.name}.yaml").write_text("\n".join(self.lines) + "\n")


class Residual:
    """Bottleneck stages on images of two or three dimensions."""

    def __init__(self, network, sizes, groups, width):
        self.network, self.groups, self.width = network, groups, width
        self.dimensions = len(sizes)
        self.op = f"conv{self.dimensions}d"
        self.channels, self.sizes, self.last = 64, list(sizes), "*"

    def conv(self, name, source, channels, sizes, out, kernel, stride, groups=1):
        def each(value):
            return "x".join([str(value)] * self.dimensions)
        layout = "DHW"[3 - self.dimensions:]
        padding = "x".join([str(kernel // 2)] * (2 * self.dimensions))
        return self.network.add(
            name, self.op, [source, "*"], [1, channels] + sizes, strides=each(stride),
            padding=padding, dilation=each(1), groups=groups, channels=out, kernel_size=each(kernel),
            data_layout="NC" + layout, kernel_layout="OI" + layout)

    def relu(self, name, source, channels, sizes):
        return self.network.add(name, "relu", [source], [1, channels] + sizes)

    def block(self, name, planes, stride):
        inner, out = planes * self.width // 64 * self.groups, planes * 4
        source, channels, sizes = self.last, self.channels, self.sizes
        smaller = [(s + stride - 1) // stride for s in sizes]
        a = self.conv(f"{name}.conv1", source, channels, sizes, inner, 1, 1)
        a = self.relu(f"{name}.relu1", a, inner, sizes)
        b = self.conv(f"{name}.conv2", a, inner, sizes, inner, 3, stride, self.groups)
        b = self.relu(f"{name}.relu2", b, inner, smaller)
        c = self.conv(f"{name}.conv3", b, inner, smaller, out, 1, 1)
        shortcut = source
        if stride > 1 or channels != out:
            shortcut = self.conv(f"{name}.down", source, channels, sizes, out, 1, stride)
        c = self.network.add(f"{name}.add", "add", [c, shortcut], [1, out] + smaller)
        self.last = self.relu(f"{name}.relu3", c, out, smaller)
        self.channels, self.sizes = out, smaller

    def stages(self):
        for stage, (blocks, planes) in enumerate(STAGES, 1):
            for block in range(blocks):
                self.block(f"s{stage}b{block + 1}", planes, 2 if stage > 1 and block == 0 else 1)


def residual(name, description, sizes, groups=1, width=64):
    network = Network(name, description)
    Residual(network, sizes, groups, width).stages()
    return network


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else root / "traces" / "networks"
    folder.mkdir(parents=True, exist_ok=True)
    for network in (
            residual("resnet50", "ResNet-50, residual stages, batch 1", [56, 56]),
            residual("resnext50_32x4d", "ResNeXt-50 32x4d, residual stages, batch 1", [56, 56], 32, 4),
            residual("resnet50_3d", "3D-ResNet-50, residual stages, 3x56x56 features, batch 1",
                     [3, 56, 56])):
        network.write(folder)


if __name__ == "__main__":
    main()
