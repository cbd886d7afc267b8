#include "simulator/serve/pipelined_decode.h"

#include "simulator/base/real_sizes.h"

namespace foretrace::serve {

PassTerms TermsOf(const DataflowPass& p) {
  PassTerms t;
  const double flop =
      (2 * AsDouble(p.weights) + 4 * AsDouble(p.hidden) * AsDouble(p.context)) * AsDouble(p.tokens);
  t.compute = RealUs(RealSeconds(flop / p.tensor / p.rate.per_second()));
  if (p.reads_weights) {
    t.memory = RealUs(RealBytes(AsDouble(p.weights * p.width)) / p.tensor / p.memory);
  }
  // Two all-reduces, each a reduce-scatter and an all-gather of n - 1 hops.
  const double hops = 4.0 * (p.tensor - 1);
  t.latency = RealUs(hops * p.hop.us());
  t.serialisation =
      RealUs(hops / p.tensor * RealBytes(AsDouble(p.tokens * p.hidden * p.width)) / p.link);
  return t;
}

RealUs TimeOf(const DataflowPass& p) {
  const RealUs sent(RealBytes(AsDouble(p.tokens * p.hidden * p.width)) / p.tensor / p.link);
  return AsDouble(p.layers) * TermsOf(p).total() + (p.pipeline - 1) * (sent + RealUs(p.hop.us()));
}

double PassTokensPerSecond(const DataflowPass& p) {
  return AsDouble(p.tokens) * p.pipeline / (AsDouble(p.layers) * TermsOf(p).total()).us() * 1e6;
}

}  // namespace foretrace::serve
