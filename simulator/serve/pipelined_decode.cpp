#include "simulator/serve/pipelined_decode.h"

namespace foretrace::serve {
namespace {

double Num(int64_t n) { return static_cast<double>(n); }

}  // namespace

DecodeTerms TermsOf(const DataflowDecode& d) {
  DecodeTerms t;
  const double flop = 2 * Num(d.weights) + 4 * Num(d.hidden) * Num(d.context);
  t.compute_us = flop / d.tensor / d.rate.per_second() * 1e6;
  t.memory_us = Num(d.weights * d.width) / d.tensor / d.memory.bytes_per_second() * 1e6;
  // Two all-reduces, each a reduce-scatter and an all-gather of n - 1 hops.
  const double hops = 4.0 * (d.tensor - 1);
  t.latency_us = hops * d.hop.us();
  t.serialisation_us = hops / d.tensor * Num(d.hidden * d.width) / d.link.bytes_per_second() * 1e6;
  return t;
}

double StepUs(const DataflowDecode& d) {
  const double sent = Num(d.hidden * d.width) / d.tensor / d.link.bytes_per_second() * 1e6;
  return Num(d.layers) * TermsOf(d).us() + (d.pipeline - 1) * (sent + d.hop.us());
}

}  // namespace foretrace::serve
