#include "simulator/architect/tensor_cycles.h"

#include <algorithm>
#include <cmath>

namespace foretrace {
namespace {

constexpr int64_t kWordBytes = 2;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Cycles of one array: two dimensions on it, the third in time.
int64_t ArrayCycles(int64_t m, int64_t n, int64_t k, int64_t width, int64_t depth) {
  const auto on = [&](int64_t x, int64_t y, int64_t time) {
    return std::min(CeilDiv(x, width) * CeilDiv(y, depth), CeilDiv(y, width) * CeilDiv(x, depth)) *
           time;
  };
  return std::min({on(m, n, k), on(n, k, m), on(m, k, n)});
}

// Words of operands read while a tile of at most `words` results is kept.
double OperandWords(int64_t m, int64_t n, int64_t k, int64_t words) {
  const double a = static_cast<double>(m) * static_cast<double>(k);
  const double b = static_cast<double>(n) * static_cast<double>(k);
  double least = 0;
  for (int64_t rows = m;; rows = CeilDiv(rows, 2)) {
    const int64_t columns = std::clamp<int64_t>(words / rows, 1, n);
    const double read =
        a * static_cast<double>(CeilDiv(n, columns)) + b * static_cast<double>(CeilDiv(m, rows));
    if (least == 0 || (rows * columns <= words && read < least)) least = read;
    if (rows == 1 || columns == n) break;
  }
  return least;
}

}  // namespace

int64_t TensorCycles(const Gemm& g, const AcceleratorDesign& design, const MachineBase& machine,
                     int32_t cores) {
  const int64_t tile = design.tensor_l2_bytes() / kWordBytes;
  const double hbm_words_per_cycle = machine.hbm.bytes_per_second() / kWordBytes / machine.clock_Hz;
  const double results = static_cast<double>(g.m) * static_cast<double>(g.n);
  const double batch = static_cast<double>(g.batch);
  const int64_t kept = (int64_t{design.buffer_MB} << 20) / kWordBytes;
  const double hbm = batch * (OperandWords(g.m, g.n, g.k, kept) + results) / hbm_words_per_cycle;
  // GEMMs of a batch share nothing: they are divided first.
  int64_t items = 1;
  while (items * 2 <= cores && items < g.batch) items *= 2;
  const int64_t rest = cores / items;
  const int64_t turns = CeilDiv(g.batch, items);
  double best = 0;
  for (int64_t rows = 1; rows <= rest; rows *= 2) {
    for (int64_t columns = 1; rows * columns <= rest; columns *= 2) {
      const int64_t depths = rest / (rows * columns);
      if ((rows > 1 && rows >= 2 * g.m) || (columns > 1 && columns >= 2 * g.n)) continue;
      const int64_t m = CeilDiv(g.m, rows), n = CeilDiv(g.n, columns), k = CeilDiv(g.k, depths);
      const int64_t used_depths = CeilDiv(g.k, k);
      const double parts =
          static_cast<double>(CeilDiv(g.m, m) * CeilDiv(g.n, n) * used_depths) * batch;
      const double partial = results * batch * static_cast<double>(used_depths - 1);
      const double in = parts * OperandWords(m, n, k, tile) + partial;
      const double out = results * batch + partial;
      const double array = static_cast<double>(turns) *
                           static_cast<double>(ArrayCycles(m, n, k, design.width, design.depth));
      const double cycles = std::max(
          {array, in / machine.fill_words_per_cycle, out / machine.fill_words_per_cycle, hbm});
      if (best == 0 || cycles < best) best = cycles;
    }
  }
  return static_cast<int64_t>(std::ceil(best)) + design.width + design.depth;
}

}  // namespace foretrace
