"""Ready-made training steps: DLRM, GPT-2 small and medium, BERT-base, ResNet-50.

Plain PyTorch, written after the published architectures; weights and data are random, since only
shapes and index distributions bear on time.
"""
import contextlib

from support import indices as index_draws
from support.dlrm import Dlrm
from support.device import set_tf32
from support.resnet import resnet50
from support.run import Refusal, import_torch
from support.transformer import Transformer

# name: (layers, width, heads, vocabulary, sequence, causal)
_TRANSFORMERS = {"gpt2-small": (12, 768, 12, 50257, 1024, True),
                 "gpt2-medium": (24, 1024, 16, 50257, 1024, True),
                 "bert-base": (12, 768, 12, 30522, 512, False)}
NAMES = ("dlrm",) + tuple(_TRANSFORMERS) + ("resnet50",)
DEFAULT_BATCH = {"dlrm": 2048, "gpt2-small": 8, "gpt2-medium": 4, "bert-base": 16, "resnet50": 64}
BATCHES = 4  # prepared on the host, used in turn
_SLEEP_CYCLES_A_MS = 1.7e6  # of about 1.7 GHz


class Workload:
    """A model with its data and optimizer; `step(number)` is one training iteration."""

    def __init__(self, options, ranks):
        self.torch = import_torch()
        self.options, self.ranks, self.device = options, ranks, ranks.device
        self.batch = options.batch or (4 if options.tiny else DEFAULT_BATCH[options.workload])
        self._set_precision()
        self.model, self.data, self.loss, self.facts = self._build()
        if ranks.group:
            self.model = self._distribute(self.model)
        if options.compile:
            if not hasattr(self.torch, "compile"):
                raise Refusal("--compile needs PyTorch 2; this is %s" % self.torch.__version__)
            self.model = self.torch.compile(self.model)
        self.optimizer = self._optimizer()
        self.scaler = None
        if options.precision == "fp16":
            newer = hasattr(self.torch, "amp") and hasattr(self.torch.amp, "GradScaler")
            self.scaler = self.torch.amp.GradScaler("cuda") if newer else self.torch.cuda.amp.GradScaler()

    def _set_precision(self):
        precision, cuda = self.options.precision, self.device.type == "cuda"
        if not cuda and precision not in ("fp32", "bf16"):
            raise Refusal("--precision %s needs a GPU" % precision)
        if cuda and precision in ("tf32", "bf16") and self.torch.cuda.get_device_capability()[0] < 8:
            raise Refusal("--precision %s: this GPU has no units for it; use fp32 or fp16" % precision)
        set_tf32(cuda and precision == "tf32")

    def _autocast(self):
        if self.options.precision in ("fp32", "tf32"):
            return contextlib.nullcontext()
        dtype = {"fp16": self.torch.float16, "bf16": self.torch.bfloat16}[self.options.precision]
        return self.torch.autocast(self.device.type, dtype=dtype)

    def _build(self):
        name, options = self.options.workload, self.options
        if name == "dlrm":
            model = Dlrm(options, self.ranks, self.batch)
            return model, model.batches(BATCHES), model.loss, model.facts
        if name == "resnet50":
            width, side, classes = (4, 32, 10) if options.tiny else (64, 224, 1000)
            model = resnet50(width, classes).to(self.device)
            if options.channels_last:
                model = model.to(memory_format=self.torch.channels_last)
            data = [(self.torch.randn(self.batch, 3, side, side),
                     self.torch.randint(classes, (self.batch,))) for _ in range(BATCHES)]
            return model, data, self._image_loss, {"image": side, "width": width}
        layers, width, heads, vocabulary, sequence, causal = _TRANSFORMERS[name]
        if options.tiny:
            layers, width, heads, vocabulary, sequence = 2, 32, 2, 64, 16
        sequence, layers = options.sequence or sequence, options.layers or layers
        model = Transformer(layers, width, heads, vocabulary, sequence, causal,
                            options.attention).to(self.device)
        data = [(self.torch.randint(vocabulary, (self.batch, sequence)),
                 self.torch.randint(vocabulary, (self.batch, sequence))) for _ in range(BATCHES)]
        return model, data, self._token_loss, {"layers": layers, "width": width, "heads": heads,
                                               "vocabulary": vocabulary, "sequence": sequence}

    def _distribute(self, model):
        parallel = self.torch.nn.parallel.DistributedDataParallel
        ids = [self.device.index] if self.device.type == "cuda" else None
        if isinstance(model, Dlrm):
            model.bottom, model.top = (parallel(m, device_ids=ids) for m in (model.bottom, model.top))
            return model
        return parallel(model, device_ids=ids)

    def _optimizer(self):
        optim = self.torch.optim
        how = {"default": {}, "foreach": {"foreach": True}, "fused": {"fused": True},
               "loop": {"foreach": False}}[self.options.optimizer_impl]
        parameters = list(self.model.parameters())
        if self.options.workload == "dlrm":
            # Sparse gradients are taken by the plain loop alone.
            return optim.SGD(parameters, lr=0.01, **(how if self.options.dense_grad else {"foreach": False}))
        if self.options.workload == "resnet50":
            return optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=1e-4, **how)
        return optim.AdamW(parameters, lr=1e-4, **how)

    def _image_loss(self, images, labels):
        if self.options.channels_last:
            images = images.contiguous(memory_format=self.torch.channels_last)
        return self.torch.nn.functional.cross_entropy(self.model(images).float(), labels)

    def _token_loss(self, tokens, targets):
        logits = self.model(tokens)
        return self.torch.nn.functional.cross_entropy(
            logits.float().view(-1, logits.shape[-1]), targets.view(-1))

    def prepare(self):
        """Puts the batches where --input says: pageable or pinned host memory, or the device."""
        where = self.options.input
        if where == "pinned" and self.device.type == "cuda":
            self.data = [tuple(t.pin_memory() for t in batch) for batch in self.data]
        elif where == "device":
            self.data = [tuple(t.to(self.device) for t in batch) for batch in self.data]

    def step(self, number):
        """One iteration: input, zero_grad, forward, backward, optimizer."""
        note = self.torch.profiler.record_function
        with note("## input ##"):
            pinned = self.options.input == "pinned"
            batch = [t.to(self.device, non_blocking=pinned) for t in self.data[number % BATCHES]]
        with note("## zero_grad ##"):
            self.optimizer.zero_grad(set_to_none=True)
        with note("## forward ##"), self._autocast():
            loss = self.loss(*batch)
        if self.options.sleep_ms > 0:
            with note("## sleep ##"):
                self.torch.cuda._sleep(int(self.options.sleep_ms * _SLEEP_CYCLES_A_MS))
        with note("## backward ##"):
            (self.scaler.scale(loss) if self.scaler else loss).backward()
        with note("## optimizer ##"):
            if self.scaler:
                self.scaler.step(self.optimizer)
                self.scaler.update()
            else:
                self.optimizer.step()
        if self.options.read_loss:
            with note("## read loss ##"):
                loss.item()

    def describe(self):
        """What the manifest says of the workload."""
        options = self.options
        facts = {"name": options.workload, "tiny": options.tiny, "batch_per_rank": self.batch,
                 "precision": options.precision, "compile": options.compile, "input": options.input,
                 "optimizer": type(self.optimizer).__name__, "optimizer_impl": options.optimizer_impl,
                 "read_loss": options.read_loss, "sleep_ms": options.sleep_ms,
                 "parameters": sum(p.numel() for p in self.model.parameters())}
        facts.update(self.facts)
        return facts


def add_options(parser):
    """Switches of the workloads."""
    parser.add_argument("--workload", choices=NAMES, default="dlrm")
    parser.add_argument("--batch", type=int, default=0, help="samples per rank; 0: the workload's own")
    parser.add_argument("--precision", choices=("fp32", "tf32", "fp16", "bf16"), default="fp32")
    parser.add_argument("--compile", action="store_true", help="torch.compile the model")
    parser.add_argument("--optimizer-impl", choices=("default", "foreach", "fused", "loop"),
                        default="default")
    parser.add_argument("--input", choices=("pinned", "pageable", "device"), default="pinned",
                        help="where batches lie before a step")
    parser.add_argument("--read-loss", action="store_true", help="read the loss on the host each step")
    parser.add_argument("--sleep-ms", type=float, default=0,
                        help="a kernel that spins for about so long between the passes")
    parser.add_argument("--layers", type=int, default=0, help="of a transformer; 0: the model's own")
    parser.add_argument("--sequence", type=int, default=0, help="tokens; 0: the model's own")
    parser.add_argument("--attention", choices=("sdpa", "math"), default="sdpa",
                        help="fused attention where PyTorch has it, or separate GEMMs and softmax")
    parser.add_argument("--channels-last", action="store_true", help="memory format of ResNet")
    parser.add_argument("--tables", choices=sorted(Dlrm.MIXES), default="mixed", help="DLRM's tables")
    parser.add_argument("--indices", default="zipf-1.05",
                        help="DLRM's lookups: uniform, unique, zipf-EXPONENT or binned-DECAY")
    parser.add_argument("--dense-grad", action="store_true",
                        help="dense gradients of DLRM's tables instead of sparse ones")


def check_options(options):
    """Refuses what argparse cannot check."""
    torch = import_torch()
    try:
        generator = torch.Generator()
        index_draws.draw(options.indices, 4, 4, generator, torch.device("cpu"))
    except (KeyError, ValueError) as error:
        raise Refusal("--indices %r is none of uniform, unique, zipf-EXPONENT, binned-DECAY" %
                      options.indices) from error
    if min(options.batch, options.sequence, options.layers, options.sleep_ms) < 0:
        raise Refusal("--batch, --sequence, --layers and --sleep-ms must not be negative")
    if options.layers and options.workload not in _TRANSFORMERS:
        raise Refusal("--layers is of transformers, which %s is not" % options.workload)
    if options.sleep_ms and options.device != "cuda":
        raise Refusal("--sleep-ms needs a GPU: the kernel spins there")
