#include "simulator/serve/pipelined_decode.h"

namespace foretrace::serve {
namespace {

double Num(int64_t n) { return static_cast<double>(n); }

}  // namespace

PassTerms TermsOf(const DataflowPass& p) {
  PassTerms t;
  const double flop = (2 * Num(p.weights) + 4 * Num(p.hidden) * Num(p.context)) * Num(p.tokens);
  t.compute_us = flop / p.tensor / p.rate.per_second() * 1e6;
  if (p.reads_weights) {
    t.memory_us = Num(p.weights * p.width) / p.tensor / p.memory.bytes_per_second() * 1e6;
  }
  // Two all-reduces, each a reduce-scatter and an all-gather of n - 1 hops.
  const double hops = 4.0 * (p.tensor - 1);
  t.latency_us = hops * p.hop.us();
  t.serialisation_us =
      hops / p.tensor * Num(p.tokens * p.hidden * p.width) / p.link.bytes_per_second() * 1e6;
  return t;
}

double PassUs(const DataflowPass& p) {
  const double sent =
      Num(p.tokens * p.hidden * p.width) / p.tensor / p.link.bytes_per_second() * 1e6;
  return Num(p.layers) * TermsOf(p).us() + (p.pipeline - 1) * (sent + p.hop.us());
}

double PassTokensPerSecond(const DataflowPass& p) {
  return Num(p.tokens) * p.pipeline / (Num(p.layers) * TermsOf(p).us()) * 1e6;
}

}  // namespace foretrace::serve
