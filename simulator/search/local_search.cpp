#include "simulator/optimise/local_search.h"

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "simulator/base/status_macros.h"
#include "simulator/mapping/idle_choice.h"
#include "simulator/mapping/kept_inputs.h"
#include "simulator/search/mapping_search.h"

namespace foretrace {
namespace {

// Draws neighbours of mappings.
class Moves {
 public:
  Moves(const TransformerConfig& model, const MappingSpace& space, std::mt19937_64& rng)
      : model_(model), space_(space), rng_(rng) {}

  ParallelMapping Draw(ParallelMapping m) {
    // How many layers are recomputed, and how inputs are kept, follows from the rest.
    const Recompute plain = m.recomputes_some() ? Recompute::kNone : m.recompute;
    m = WithoutRecomputation(m);
    m.recompute = plain;
    const ParallelMapping before = m;
    bool shifts = false;
    const uint64_t pick = rng_() % 12;
    if (pick < 3) {
      MoveDegree(m);
    } else if (pick < 5) {
      // Numbers of chunks need not be powers of two.
      if (pick == 3) {
        m.micro_batch = rng_() % 2 == 0 ? m.micro_batch * 2 : std::max(1, m.micro_batch / 2);
      } else {
        m.chunks = 1 + Below(space_.max_chunks);
      }
    } else if (pick == 5) {
      if (space_.recompute) m.recompute = static_cast<Recompute>(Below(3));
    } else if (pick == 6) {
      m.sequence_parallel = !m.sequence_parallel && space_.sequence_parallel;
    } else if (pick < 9) {
      m.zero = m.replicas() > 1 ? Below(MostZero(space_, m) + 1) : 0;
    } else if (pick == 9) {
      m.overlap_gradients = !m.overlap_gradients && space_.overlap_gradients && m.replicas() > 1;
    } else if (pick == 10) {
      m.schedule = space_.schedules[rng_() % space_.schedules.size()];
      m.k = m.schedule == ScheduleKind::kKFKB ? 2 << Below(2) : 1;
      if (!m.interleaves()) m.chunks = 1;
    } else if (model_.experts > 0 && rng_() % 2 == 0) {
      MoveExperts(m);
    } else {
      shifts = true;
    }
    const auto& formats = space_.formats;
    if (formats.size() > 1 && rng_() % 8 == 0) SetFormat(formats[rng_() % formats.size()], m);
    Reconcile(m);
    const bool alike = m.pipeline == before.pipeline && m.chunks == 1 && before.chunks == 1;
    if (alike && !m.dual()) {
      if (!before.layers.empty()) SetLayers(before.layers, m);
      if (shifts && m.pipeline > 1) ShiftLayer(m);
    }
    Conform(model_, space_, m);
    return m;
  }

 private:
  // Half of one degree's devices to another.
  void MoveDegree(ParallelMapping& m) {
    int32_t* degrees[] = {&m.tensor, &m.pipeline, &m.data, &m.context};
    const uint64_t kinds = space_.max_context > 1 ? 4 : 3;
    int32_t& to = *degrees[rng_() % kinds];
    int32_t& from = *degrees[rng_() % kinds];
    if (from % 2 == 0) {
      from /= 2;
      to *= 2;
    }
    if (m.context == 1) m.ring = m.ulysses = false;
  }

  // What had one stage, or what software made of another schedule, may have none that is asked for.
  void Reconcile(ParallelMapping& m) const {
    const auto& schedules = space_.schedules;
    if (m.pipeline > 1 && std::ranges::find(schedules, m.schedule) == schedules.end()) {
      m.schedule = schedules.front();
    }
    if (m.returns()) m.chunks = 2;
    const auto& dispatches = space_.dispatches;
    if (m.expert == 1) {
      m.dispatch = ExpertDispatch::kAllToAll;
    } else if (std::ranges::find(dispatches, m.dispatch) == dispatches.end()) {
      m.dispatch = dispatches.front();
    }
    m.overlap_experts &= m.expert > 1 && HasOppositePasses(m);
    DivideLayers(model_, m);
    if (m.zero < 3) m.hybrid = 0;
  }

  // One layer from a stage to another.
  void ShiftLayer(ParallelMapping& m) {
    std::vector<int32_t> layers =
        m.layers.empty() ? SpreadLayers(model_.layers, m.pipeline) : m.layers;
    int32_t& from = layers[static_cast<size_t>(Below(m.pipeline))];
    int32_t& to = layers[static_cast<size_t>(Below(m.pipeline))];
    if (&from == &to || from < 2) return;
    --from;
    ++to;
    SetLayers(std::move(layers), m);
  }

  // As it is written where stages have as many layers each.
  static void SetLayers(std::vector<int32_t> layers, ParallelMapping& m) {
    m.counted_ends = false;
    m.layers = std::move(layers);
    if (std::ranges::count(m.layers, m.layers.front()) == m.pipeline) m.layers.clear();
  }

  int32_t Below(int64_t n) { return static_cast<int32_t>(rng_() % static_cast<uint64_t>(n)); }

  void MoveExperts(ParallelMapping& m) {
    const uint64_t dispatches = space_.dispatches.size() > 1 ? 1 : 0;
    const uint64_t way = rng_() % (3 + dispatches + (space_.overlap_experts ? 1 : 0));
    if (way == 3 && dispatches > 0) {
      m.dispatch = space_.dispatches[rng_() % space_.dispatches.size()];
    } else if (way >= 3) {
      m.overlap_experts = !m.overlap_experts;
    } else if (way == 2) {
      m.expert_tensor = m.expert_tensor == 0 && m.sequence_parallel ? 1 : 0;
    } else {
      m.expert = way == 0 ? m.expert * 2 : std::max(1, m.expert / 2);
    }
  }

  const TransformerConfig& model_;
  const MappingSpace& space_;
  std::mt19937_64& rng_;
};

}  // namespace

absl::StatusOr<RankedMapping> SearchLocally(const Evaluator& evaluator,
                                            const TransformerConfig& model,
                                            const MappingSpace& space, const ParallelMapping& start,
                                            int32_t steps, uint64_t seed, std::stop_token stop) {
  FORETRACE_ASSIGN_OR_RETURN(const Evaluation first, evaluator.Evaluate(start));
  const auto propose = [&](const RankedMapping& now,
                           std::mt19937_64& rng) -> std::optional<RankedMapping> {
    Moves moves(model, space, rng);
    // Some better mappings are two moves away, by way of one that does not fit.
    ParallelMapping candidate = moves.Draw(now.mapping);
    if (rng() % 2 == 0) candidate = moves.Draw(candidate);
    if (candidate == now.mapping || candidate.tensor > space.max_tensor ||
        candidate.context > space.max_context || candidate.micro_batch > space.max_micro_batch ||
        !CheckMapping(model, candidate, space.devices).ok()) {
      return std::nullopt;
    }
    if (!evaluator.Fits(candidate)) {
      const auto some = MakeFit(evaluator, model, space, candidate);
      if (!some || *some == now.mapping) return std::nullopt;
      candidate = *some;
    }
    const auto evaluation = evaluator.Evaluate(candidate);
    if (!evaluation.ok()) return std::nullopt;
    return RankedMapping{candidate, *evaluation};
  };
  AnnealingSettings settings;
  settings.steps = steps;
  settings.seed = seed;
  return Anneal(
      RankedMapping{start, first}, settings, propose,
      [](const RankedMapping& m) { return m.evaluation.iteration.seconds(); }, stop);
}

}  // namespace foretrace
