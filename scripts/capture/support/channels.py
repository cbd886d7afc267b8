"""A kernel that holds a device's multiprocessors as a collective's does: one block each, all its registers, that copies
memory at a set rate until its time is over. For measurements of what runs beside it on one GPU."""
from support.run import Refusal, import_torch

# 1,024 threads of 64 registers are all of a multiprocessor's 65,536, as with NCCL's 640 of 96 next to nothing fits
# beside. `pace` is the least time in ns that a round of 192 KiB each way takes; 0: as fast as it can; `move` 0: no memory.
_SOURCE = r"""
extern "C" __global__ void __launch_bounds__(1024, 1)
channel(const uint4* from, uint4* to, unsigned long long words, unsigned long long lasts, int move,
        unsigned long long pace) {
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  unsigned long long place = (unsigned long long)blockIdx.x * (words / gridDim.x);
  const unsigned long long end = place + words / gridDim.x - 12288;
  unsigned long long at = place + threadIdx.x;
  unsigned long long rounds = 0;
  uint4 kept[12];
  do {
    if (move) {
#pragma unroll
      for (int i = 0; i < 12; ++i) kept[i] = from[at + i * 1024];
#pragma unroll
      for (int i = 0; i < 12; ++i) to[at + i * 1024] = kept[i];
      at += 12288;
      if (at >= end) at = place + threadIdx.x;
    }
    ++rounds;
    do {
      asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (pace && now - begin < rounds * pace && now - begin < lasts);
  } while (now - begin < lasts);
}
"""


class Channels:
    """`start(blocks, milliseconds, move, gigabytes_a_second)` launches the kernel on a stream of high priority."""

    def __init__(self, device, megabytes=512):
        torch = import_torch()
        try:
            import cupy
        except ImportError as error:
            raise Refusal("this measurement compiles a kernel with CuPy, which cannot be imported (%s)" % error) from error
        self._cupy = cupy
        self.stream = torch.cuda.Stream(priority=-1)
        self._from, self._to = (torch.zeros(megabytes << 18, dtype=torch.int32, device=device) for _ in range(2))
        self._kernel = cupy.RawKernel(_SOURCE, "channel")
        self.registers = self._kernel.num_regs

    def start(self, blocks, milliseconds, move=True, gigabytes_a_second=0.0):
        """`gigabytes_a_second` (0: as fast as it goes): what all blocks read, and as much that they write."""
        pace = int(blocks * 12288 * 16 / gigabytes_a_second) if gigabytes_a_second else 0
        words = self._from.numel() // 4
        with self._cupy.cuda.ExternalStream(self.stream.cuda_stream):
            self._kernel((blocks,), (1024,), (
                self._from.data_ptr(), self._to.data_ptr(), self._cupy.uint64(words),
                self._cupy.uint64(int(milliseconds * 1e6)), self._cupy.int32(move), self._cupy.uint64(pace)))
