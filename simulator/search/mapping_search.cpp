#include "simulator/search/mapping_search.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/mapping/memory_model.h"

namespace foretrace {
namespace {

std::vector<int32_t> Divisors(int64_t n, int64_t limit) {
  std::vector<int32_t> divisors;
  for (int64_t d = 1; d <= std::min(n, limit); ++d) {
    if (n % d == 0) divisors.push_back(static_cast<int32_t>(d));
  }
  return divisors;
}

}  // namespace

SimTime IterationEvaluator::LowerBound(const ParallelMapping& m) const {
  const auto passes = TimePasses(model_, m, cluster_);
  if (!passes.ok()) return SimTime();
  const int64_t layers = model_.layers / m.pipeline;
  const SimTime stage =
      SimTime::FromPs((passes->layer_forward + passes->layer_backward).ps() * layers) +
      passes->head_forward + passes->head_backward;
  // To and from the first chunk of the last stage.
  const SimTime way = SimTime::FromPs(
      ((passes->layer_forward + passes->layer_backward).ps() * (layers / m.chunks) +
       2 * passes->transfer.ps()) * (m.pipeline - 1));
  return SimTime::FromPs(stage.ps() * m.microbatches()) + way + passes->gradient_reduction +
         passes->optimizer;
}

absl::StatusOr<Evaluation> IterationEvaluator::Evaluate(const ParallelMapping& mapping) const {
  FORETRACE_RETURN_IF_ERROR(CheckMapping(model_, mapping, 0));
  FORETRACE_RETURN_IF_ERROR(CheckMemory(model_, mapping, capacity_));
  FORETRACE_ASSIGN_OR_RETURN(const IterationEstimate estimate,
                             EstimateIteration(model_, mapping, cluster_));
  return Evaluation{estimate.time, MemoryOf(model_, mapping).total(), estimate.bubble,
                    estimate.model_flop_utilisation};
}

std::vector<ParallelMapping> EnumerateMappings(const TransformerConfig& model,
                                               const MappingSpace& space) {
  std::vector<ParallelMapping> all;
  const std::vector<int32_t> tensor = Divisors(space.devices, space.max_tensor);
  for (const bool within_node : {true, false}) {
    for (const int32_t t : tensor) {
      if ((t <= space.devices_per_node) != within_node) continue;
      for (const int32_t p : Divisors(space.devices / t, model.layers)) {
        const int64_t data = space.devices / t / p;
        if (data > space.global_batch || space.global_batch % data != 0) continue;
        for (const int32_t b : Divisors(space.global_batch / data, space.max_micro_batch)) {
          for (int32_t v = 1; v <= space.max_chunks; ++v) {
            for (int r = 0; r < (space.recompute ? 3 : 1); ++r) {
              for (int flags = 0; flags < 4; ++flags) {
                ParallelMapping m;
                m.tensor = t;
                m.pipeline = p;
                m.data = static_cast<int32_t>(data);
                m.micro_batch = b;
                m.global_batch = space.global_batch;
                m.chunks = v;
                m.recompute = static_cast<Recompute>(r);
                m.sequence_parallel = flags & 1;
                m.zero = (flags & 2) ? 1 : 0;
                if ((m.sequence_parallel && !space.sequence_parallel) ||
                    (m.zero > 0 && (!space.distributed_optimizer || data == 1))) {
                  continue;
                }
                if (CheckMapping(model, m, space.devices).ok()) all.push_back(m);
              }
            }
          }
        }
      }
    }
  }
  return all;
}

absl::StatusOr<SearchResult> SearchExhaustively(const Evaluator& evaluator,
                                                const std::vector<ParallelMapping>& candidates,
                                                size_t keep) {
  SearchResult result;
  // Promising candidates first, so that the bound bites.
  std::vector<std::pair<SimTime, size_t>> order;
  for (size_t i = 0; i < candidates.size(); ++i) {
    order.emplace_back(evaluator.LowerBound(candidates[i]), i);
  }
  std::sort(order.begin(), order.end());
  std::vector<std::pair<SimTime, size_t>> best;  // (time, candidate), ascending, at most `keep`
  std::vector<std::pair<size_t, Evaluation>> found;
  absl::Status reason;
  for (const auto& [bound, index] : order) {
    if (best.size() == keep && keep > 0 && bound > best.back().first) {
      ++result.pruned;
      continue;
    }
    const auto evaluation = evaluator.Evaluate(candidates[index]);
    if (!evaluation.ok()) {
      if (evaluation.status().code() != absl::StatusCode::kFailedPrecondition) {
        return evaluation.status();
      }
      ++result.infeasible;
      reason = evaluation.status();
      continue;
    }
    ++result.evaluated;
    found.emplace_back(index, *evaluation);
    best.insert(std::upper_bound(best.begin(), best.end(), std::pair(evaluation->iteration, index)),
                {evaluation->iteration, index});
    if (best.size() > keep) best.pop_back();
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return a.second.iteration != b.second.iteration ? a.second.iteration < b.second.iteration
                                                    : a.first < b.first;
  });
  for (const auto& [index, evaluation] : found) {
    result.ranked.push_back({candidates[index], evaluation});
  }
  result.nearest = std::string(reason.message());
  if (result.ranked.empty()) {
    return Infeasible("none of {} mappings is feasible; the last one: {}", candidates.size(),
                      candidates.empty() ? "degrees do not divide the devices, layers or batch"
                                         : result.nearest);
  }
  return result;
}

absl::StatusOr<RankedMapping> SearchLocally(const Evaluator& evaluator,
                                            const TransformerConfig& model,
                                            const MappingSpace& space, const ParallelMapping& start,
                                            int32_t steps, uint64_t seed) {
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
    int32_t* degrees[] = {&m.tensor, &m.pipeline, &m.data};
    const uint64_t pick = rng() % 8;
    if (pick < 3) {
      halve_into(*degrees[rng() % 3], *degrees[rng() % 3]);
    } else if (pick < 5) {
      // Numbers of chunks need not be powers of two.
      if (pick == 3) {
        m.micro_batch = rng() % 2 == 0 ? m.micro_batch * 2 : std::max(1, m.micro_batch / 2);
      } else {
        m.chunks = 1 + static_cast<int32_t>(rng() % static_cast<uint64_t>(space.max_chunks));
      }
    } else if (pick == 5) {
      if (space.recompute) m.recompute = static_cast<Recompute>(rng() % 3);
    } else if (pick == 6) {
      m.sequence_parallel = !m.sequence_parallel && space.sequence_parallel;
    } else {
      m.zero = m.zero == 0 && space.distributed_optimizer && m.data > 1 ? 1 : 0;
    }
    return m;
  };
  for (int32_t step = 0; step < steps; ++step) {
    const double progress = std::fmod(4.0 * step / steps, 1.0);
    if (progress < 4.0 / steps) now = best;
    // Some better mappings are two moves away, by way of one that does not fit.
    ParallelMapping candidate = move(now.mapping);
    if (rng() % 2 == 0) candidate = move(candidate);
    if (candidate == now.mapping || candidate.tensor > space.max_tensor ||
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
