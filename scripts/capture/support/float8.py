"""Linear layers in 8 bits with one scale a tensor, taken from the operand itself (torchao's tensorwise recipe:
inputs, weights in e4m3, gradients in e5m2)."""
from support.run import import_torch

torch = import_torch()


def cast(x, dtype):
    """(x in 8 bits, the inverse of its scale as a 32-bit scalar)"""
    largest = x.abs().max().to(torch.float64).clamp(min=1e-12)
    scale = (torch.finfo(dtype).max / largest).to(torch.float32)
    top = torch.finfo(dtype).max
    return (x.to(torch.float32) * scale).clamp(-top, top).to(dtype), scale.reciprocal()


def product(a, a_scale, b, b_scale, fast):
    """a [m, k] by rows times b [k, n] by columns, both in 8 bits, to bfloat16."""
    return torch._scaled_mm(a, b, scale_a=a_scale, scale_b=b_scale, out_dtype=torch.bfloat16, use_fast_accum=fast)


class _Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        x8, x_scale = cast(x, torch.float8_e4m3fn)
        w8, w_scale = cast(weight, torch.float8_e4m3fn)
        return product(x8, x_scale, w8.t(), w_scale, True)

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        g8, g_scale = cast(gradient, torch.float8_e5m2)
        w8, w_scale = cast(weight, torch.float8_e4m3fn)
        x8, x_scale = cast(x, torch.float8_e4m3fn)
        columns = w8.t().contiguous().t()
        of_input = product(g8, g_scale, columns, w_scale, False)
        of_weight = product(g8.t().contiguous(), g_scale, x8.t().contiguous().t(), x_scale, False)
        return of_input, of_weight


class Linear(torch.nn.Linear):
    """y = x W, all three GEMMs in 8 bits."""

    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs, bias=False)

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        return _Function.apply(flat, self.weight).view(*x.shape[:-1], -1)
