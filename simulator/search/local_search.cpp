#include <algorithm>
#include <cmath>
#include <random>

#include "simulator/base/status_macros.h"
#include "simulator/search/mapping_search.h"

namespace foretrace {

absl::StatusOr<RankedMapping> SearchLocally(const Evaluator& evaluator,
                                            const TransformerConfig& model,
                                            const MappingSpace& space, const ParallelMapping& start,
                                            int32_t steps, uint64_t seed, std::stop_token stop) {
  FORETRACE_ASSIGN_OR_RETURN(const Evaluation first, evaluator.Evaluate(start));
  RankedMapping best{start, first}, now = best;
  std::mt19937_64 rng(seed);
  const auto uniform = [&] { return static_cast<double>(rng() >> 11) * 0x1.0p-53; };
  const auto move = [&](ParallelMapping m) {
    const auto halve_into = [&](int32_t& from, int32_t& to) {
      if (from % 2 == 0) {
        from /= 2;
        to *= 2;
      }
    };
    int32_t* degrees[] = {&m.tensor, &m.pipeline, &m.data, &m.context};
    const uint64_t kinds = space.max_context > 1 ? 4 : 3;
    const auto below = [&](int64_t n) {
      return static_cast<int32_t>(rng() % static_cast<uint64_t>(n));
    };
    const uint64_t pick = rng() % 12;
    if (pick < 3) {
      halve_into(*degrees[rng() % kinds], *degrees[rng() % kinds]);
    } else if (pick < 5) {
      // Numbers of chunks need not be powers of two.
      if (pick == 3) {
        m.micro_batch = rng() % 2 == 0 ? m.micro_batch * 2 : std::max(1, m.micro_batch / 2);
      } else {
        m.chunks = 1 + below(space.max_chunks);
      }
    } else if (pick == 5) {
      if (space.recompute) m.recompute = static_cast<Recompute>(below(3));
    } else if (pick == 6) {
      m.sequence_parallel = !m.sequence_parallel && space.sequence_parallel;
    } else if (pick < 9) {
      m.zero = m.replicas() > 1 ? below(space.max_zero + 1) : 0;
    } else if (pick == 9) {
      m.overlap_gradients = !m.overlap_gradients && space.overlap_gradients && m.replicas() > 1;
    } else if (pick == 10) {
      m.schedule = space.schedules[rng() % space.schedules.size()];
      m.k = m.schedule == ScheduleKind::kKFKB ? 2 << below(2) : 1;
      if (m.schedule != ScheduleKind::k1F1B) m.chunks = 1;
    } else if (model.experts > 0) {
      const uint64_t way = rng() % 3;
      if (way == 2) {
        m.expert_tensor = m.expert_tensor == 0 && m.sequence_parallel ? 1 : 0;
      } else {
        m.expert = way == 0 ? m.expert * 2 : std::max(1, m.expert / 2);
      }
    }
    DivideLayers(model, m);
    return m;
  };
  for (int32_t step = 0; step < steps && !stop.stop_requested(); ++step) {
    const double progress = std::fmod(4.0 * step / steps, 1.0);
    if (progress < 4.0 / steps) now = best;
    // Some better mappings are two moves away, by way of one that does not fit.
    ParallelMapping candidate = move(now.mapping);
    if (rng() % 2 == 0) candidate = move(candidate);
    if (candidate == now.mapping || candidate.tensor > space.max_tensor ||
        candidate.context > space.max_context ||
        !CheckMapping(model, candidate, space.devices).ok()) {
      continue;
    }
    const auto evaluation = evaluator.Evaluate(candidate);
    if (!evaluation.ok()) continue;
    const double temperature = 0.1 * std::pow(0.01, progress);
    const double worse = evaluation->iteration.seconds() / now.evaluation.iteration.seconds() - 1;
    if (worse > 0 && uniform() >= std::exp(-worse / temperature)) continue;
    now = {candidate, *evaluation};
    if (now.evaluation.iteration < best.evaluation.iteration) best = now;
  }
  return best;
}

}  // namespace foretrace
