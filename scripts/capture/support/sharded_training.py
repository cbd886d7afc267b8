"""Training a Llama-like model as torchtitan does, on one device or several: FSDP2 by layer with weights gathered in
bfloat16 and gradients reduced in 32 bits, fused AdamW, layers recomputed or compiled one by one."""
import contextlib
import tempfile
from dataclasses import dataclass

from support import llama
from support.run import import_torch

torch = import_torch()

# Layers, hidden, heads, key heads, feed-forward, vocabulary; output layers are apart from embeddings, unlike those
# of Llama 3.2 1B and Qwen 2.5 0.5B, whose sizes the last but one have.
SHAPES = {
    "llama3-8b": llama.Shape(32, 4096, 32, 8, 14336, 128256),
    "llama3-70b": llama.Shape(80, 8192, 64, 8, 28672, 128256),
    "llama-1b-untied": llama.Shape(16, 2048, 32, 8, 8192, 128256),
    "llama2-7b": llama.Shape(32, 4096, 32, 32, 11008, 32000),
    "qwen-0.5b-untied": llama.Shape(24, 896, 14, 2, 4864, 151936),
    "tiny": llama.Shape(2, 64, 4, 2, 128, 256),
}


@dataclass(frozen=True)
class Job:
    """One row: a model cut to `layers`, `batch` sequences of `length`, how it is run."""
    model: str
    layers: int
    length: int
    batch: int
    recompute: str = "none"  # none, selective (torchtitan's operators) or full
    compiled: bool = False
    precision: str = "bf16"  # or fp8
    micro_batches: int = 1
    ranks: int = 1  # more: one of so many, whose collectives are not run

    def name(self):
        words = [self.model, f"l{self.shape().layers}", f"s{self.length}", f"b{self.batch}", self.recompute]
        words += ["compiled"] * self.compiled + ["fp8"] * (self.precision == "fp8")
        words += [f"x{self.micro_batches}"] * (self.micro_batches > 1) + [f"r{self.ranks}"] * (self.ranks > 1)
        return "-".join(words)

    def shape(self):
        full = SHAPES[self.model]
        return llama.Shape(self.layers or full.layers, full.hidden, full.heads, full.kv_heads, full.ffn, full.vocab)


@contextlib.contextmanager
def process_group(device, ranks):
    """A group of this process alone, which FSDP needs, or of so many ranks of which this is the first and the others are
    not there: PyTorch's fake group, whose collectives return at once, while all else runs as in the whole job."""
    if ranks > 1:
        from torch.testing._internal.distributed.fake_pg import FakeStore
        torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)
    else:
        folder = tempfile.mkdtemp()
        torch.distributed.init_process_group(
            "nccl" if device.type == "cuda" else "gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


def _every_second_product():
    """torchtitan's selective recomputation by operator: attention and every second matrix product are kept."""
    from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts
    aten = torch.ops.aten
    kept = {aten._scaled_dot_product_flash_attention.default, aten._scaled_dot_product_efficient_attention.default,
            aten._scaled_dot_product_cudnn_attention.default}

    def contexts():
        seen = {False: 0, True: 0}

        def policy(context, operator, *_, **__):
            product = operator is aten.mm.default
            seen[context.is_recompute] += product
            keep = operator in kept or (product and seen[context.is_recompute] % 2 == 1)
            return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE
        return create_selective_checkpoint_contexts(policy)
    return contexts


def _recomputed(layer, how):
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
    if how == "full":
        return checkpoint_wrapper(layer, preserve_rng_state=False)
    return checkpoint_wrapper(layer, preserve_rng_state=False, context_fn=_every_second_product())


class Training:
    """A job's model, optimizer and data; `step(number)` is one iteration. Needs a process group."""

    def __init__(self, job, device):
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
        self.job, shape = job, job.shape()
        linear = None
        if job.precision == "fp8":
            from support import float8
            linear = float8.Linear
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)

        def prepared(layer, number):
            if job.recompute != "none":
                layer = _recomputed(layer, job.recompute)
            if job.compiled:
                layer = torch.compile(layer, fullgraph=True)
            return fully_shard(layer, mp_policy=policy, reshard_after_forward=number < shape.layers - 1)
        with torch.device(device):
            model = llama.Llama(shape, job.length, device, linear, prepared)
        fully_shard(model, mp_policy=policy)
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
        self.data = [torch.randint(shape.vocab, (job.batch, job.length + 1), device=device) for _ in range(4)]
        self.loss = torch.compile(self._loss) if job.compiled else self._loss

    @staticmethod
    def _loss(logits, targets):
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(0, 1))

    def step(self, number):
        note = torch.profiler.record_function
        self.optimizer.zero_grad()
        for part in range(self.job.micro_batches):
            tokens = self.data[(number + part) % len(self.data)]
            with note("## forward ##"):
                loss = self.loss(self.model(tokens[:, :-1]), tokens[:, 1:])
            with note("## backward ##"):
                loss.backward()
        with note("## optimizer ##"):
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0, foreach=True)
            self.optimizer.step()
