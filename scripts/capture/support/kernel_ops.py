"""Builders: from a shape to the call that is timed, for each operator and phase.

A backward call is `torch.autograd.grad` over the operator's own graph (all its inputs that training
needs gradients of), so that it launches what training launches.
"""
from support.device import set_tf32, torch_dtype
from support.run import import_torch

ELEMENTWISE = {  # name: (inputs, forward)
    "add": (2, lambda F, x, y: x + y), "mul": (2, lambda F, x, y: x * y),
    "relu": (1, lambda F, x: F.relu(x)), "gelu": (1, lambda F, x: F.gelu(x)),
    "tanh": (1, lambda F, x: x.tanh()), "sigmoid": (1, lambda F, x: x.sigmoid()),
    "silu": (1, lambda F, x: F.silu(x)),
}
REDUCTIONS = {"sum": lambda x: x.sum(-1), "mean": lambda x: x.mean(-1), "max": lambda x: x.amax(-1)}


def backward_call(output, inputs, device):
    torch = import_torch()
    grad = torch.ones_like(output)
    return lambda: torch.autograd.grad(output, inputs, grad, retain_graph=True)


class Builder:
    """Makes the call of one row; `device` and `dtype` (a dtype column value) are fixed."""

    def __init__(self, device, dtype, phase):
        self.torch = import_torch()
        self.device, self.dtype, self.phase = device, torch_dtype(dtype), phase
        set_tf32(dtype == "tf32")

    def tensor(self, *size, grad=None):
        grad = self.phase == "backward" if grad is None else grad
        x = self.torch.empty(size, dtype=self.dtype, device=self.device).normal_()
        return x.requires_grad_(grad)

    def call(self, function, *inputs):
        """The forward call as a closure, or the backward call of its output."""
        if self.phase == "backward":
            wanted = [x for x in inputs if x is not None and x.requires_grad]
            return backward_call(function(*inputs), wanted, self.device)
        torch = self.torch

        def forward():
            with torch.no_grad():
                return function(*inputs)
        return forward

    def linear(self, m, n, k, bias):
        return self.call(self.torch.nn.functional.linear, self.tensor(m, k), self.tensor(n, k),
                         self.tensor(n) if bias else None)

    def bmm(self, b, m, n, k):
        return self.call(self.torch.bmm, self.tensor(b, m, k), self.tensor(b, k, n))

    def conv2d(self, n, c, h, w, k, r, s, stride, pad, dilation, groups):
        conv = self.torch.nn.functional.conv2d
        return self.call(lambda x, weight: conv(x, weight, None, stride, pad, dilation, groups),
                         self.tensor(n, c, h, w), self.tensor(k, c // groups, r, s))

    def attention(self, b, heads, kv_heads, sq, skv, d, causal, impl):
        q = self.tensor(b, heads, sq, d)
        k, v = self.tensor(b, kv_heads, skv, d), self.tensor(b, kv_heads, skv, d)
        return self.call(_math_attention(causal) if impl == "math" else _flash_attention(causal),
                         q, k, v)

    def layer_norm(self, rows, cols):
        norm = self.torch.nn.functional.layer_norm
        return self.call(lambda x, weight, bias: norm(x, (cols,), weight, bias),
                         self.tensor(rows, cols), self.tensor(cols), self.tensor(cols))

    def softmax(self, rows, cols):
        return self.call(lambda x: x.softmax(-1), self.tensor(rows, cols))

    def batch_norm(self, n, c, h, w):
        norm = self.torch.nn.functional.batch_norm
        mean = self.torch.zeros(c, device=self.device)
        var = self.torch.ones(c, device=self.device)
        weight, bias = self.torch.ones_like(mean), self.torch.zeros_like(mean)  # float32, as in training
        for x in (weight, bias):
            x.requires_grad_(self.phase == "backward")
        return self.call(lambda x, scale, shift: norm(x, mean, var, scale, shift, True),
                         self.tensor(n, c, h, w), weight, bias)

    def dropout(self, elements, inputs, op):
        dropout = self.torch.nn.functional.dropout
        return self.call(lambda x: dropout(x, 0.1, True), self.tensor(elements))

    def elementwise(self, elements, inputs, op):
        functional, apply = self.torch.nn.functional, ELEMENTWISE[op][1]
        return self.call(lambda *x: apply(functional, *x),
                         *[self.tensor(elements) for _ in range(inputs)])

    def reduction(self, rows, cols, op):
        return self.call(REDUCTIONS[op], self.tensor(rows, cols))

    def concat(self, parts, elements):
        return self.call(lambda *x: self.torch.cat(x),
                         *[self.tensor(elements // parts) for _ in range(parts)])

    def transpose(self, b, m, n):
        return self.call(lambda x: x.transpose(1, 2).contiguous(), self.tensor(b, m, n))

    def index(self, n, rows, cols):
        picked = self.torch.randint(rows, (n,), device=self.device)
        return self.call(lambda x: x[picked], self.tensor(rows, cols))

    def tril(self, n, b):
        """The lower triangles of b square matrices, as DLRM's interaction takes them."""
        i, j = self.torch.tril_indices(n, n, offset=-1, device=self.device)
        return self.call(lambda x: x[:, i, j], self.tensor(b, n, n))

    def memcpy(self, bytes, direction, pinned):
        torch, uint8 = self.torch, self.torch.uint8
        on_gpu = self.device.type == "cuda"

        def buffer(place):
            if place == "d":
                return torch.zeros(bytes, dtype=uint8, device=self.device)
            return torch.zeros(bytes, dtype=uint8, pin_memory=bool(pinned) and on_gpu)
        source, target = buffer(direction[0]), buffer(direction[-1])
        return lambda: target.copy_(source, non_blocking=bool(pinned))

    def optimizer(self, params, tensors, op, impl):
        torch = self.torch
        sizes = [params // tensors] * tensors
        weights = [torch.nn.Parameter(self.tensor(size, grad=False)) for size in sizes]
        for weight in weights:
            weight.grad = torch.ones_like(weight)
        make = {"sgd": torch.optim.SGD, "adam": torch.optim.AdamW, "adagrad": torch.optim.Adagrad}[op]
        how = {"foreach": {"foreach": True}, "fused": {"fused": True}, "loop": {"foreach": False}}[impl]
        step = make(weights, lr=1e-3, **how).step
        return step


def _expand_heads(q, k, v):
    """Grouped key/value heads repeated to the query's, as frameworks without the kernel do."""
    groups = q.shape[1] // k.shape[1]
    if groups > 1:
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    return k, v


def _math_attention(causal):
    torch = import_torch()

    def attention(q, k, v):
        k, v = _expand_heads(q, k, v)
        scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
        if causal:
            mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device)
            # Not by ~: bitwise_not is what the timer divides calls by (timing.py).
            scores = scores.masked_fill(mask.triu(1), float("-inf"))
        return scores.softmax(-1) @ v
    return attention


def _flash_attention(causal):
    """The flash kernel and no other: an input that it does not take is an error, not a slow row."""
    torch = import_torch()
    functional = torch.nn.functional
    if not hasattr(functional, "scaled_dot_product_attention"):
        raise NotImplementedError("PyTorch %s has no flash attention" % torch.__version__)

    def attention(q, k, v):
        if hasattr(torch.nn, "attention"):
            only_flash = torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION)
        else:
            only_flash = torch.backends.cuda.sdp_kernel(
                enable_flash=True, enable_math=False, enable_mem_efficient=False)
        options = {}
        if q.shape[1] != k.shape[1]:
            options["enable_gqa"] = True
        with only_flash:
            return functional.scaled_dot_product_attention(q, k, v, is_causal=bool(causal), **options)
    return attention
