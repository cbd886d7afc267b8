#include <algorithm>

#include "simulator/mapping/kept_inputs.h"
#include "simulator/search/mapping_search.h"

namespace foretrace {
namespace {

// The least number that does, between one that does not and a larger one that does.
template <typename Does>
int32_t LeastThatDoes(int32_t fails, int32_t does, const Does& check) {
  while (does - fails > 1) {
    const int32_t middle = fails + (does - fails) / 2;
    (check(middle) ? does : fails) = middle;
  }
  return does;
}

class Fitter {
 public:
  Fitter(const Evaluator& evaluator, const TransformerConfig& model, const MappingSpace& space)
      : evaluator_(evaluator), model_(model), space_(space) {}

  // As few layers recomputed as fit; `m` recomputes all, which fits.
  std::optional<ParallelMapping> FewestLayers(ParallelMapping m, SomeLayers choice) const {
    const bool first = choice == SomeLayers::kFirst;
    int64_t most = 0;
    for (int32_t s = 0; s < m.pipeline; ++s) {
      most = std::max(most,
                      first ? MostTrainedLayers(model_, m, s) : StageTrainedLayers(model_, m, s));
    }
    int32_t ParallelMapping::*const number =
        first ? &ParallelMapping::recomputed_layers : &ParallelMapping::recomputed_every;
    const auto fits = [&](int32_t layers) {
      m.*number = layers;
      return evaluator_.Fits(m);
    };
    // Of every so many'th the fewest are of the largest number.
    const auto limit = static_cast<int32_t>(most);
    m.*number = LeastThatDoes(0, limit, [&](int32_t n) { return first ? fits(n) : !fits(n + 1); });
    const bool all = first ? m.*number == limit : m.*number == 1;
    return all ? std::nullopt : std::optional(m);
  }

  // The inputs of `m`, which recomputes all, kept otherwise: the first way that fits, of which one
  // input for several layers takes no time, and the host takes most.
  std::optional<ParallelMapping> OtherInputs(const ParallelMapping& m) const {
    ParallelMapping none = m;
    none.inputs_on_host = true;
    // The least that is needed with any of them.
    if (!evaluator_.Fits(none) || evaluator_.Fits(m)) return std::nullopt;
    ParallelMapping together = m;
    int64_t most = 1;
    for (int32_t s = 0; s < m.pipeline; ++s) most = std::max(most, MostTrainedLayers(model_, m, s));
    // An input is no more than what its layer keeps, so that beyond the root of the layers each
    // further one that runs again at once needs more than inputs save.
    for (int32_t n = 2; int64_t{n - 1} * (n - 1) < most; ++n) {
      together.recomputed_together = n;
      if (evaluator_.Fits(together)) return together;
    }
    ParallelMapping divided = m;
    divided.divided_inputs = m.tensor > 1 && !m.sequence_parallel;
    if (divided.divided_inputs && evaluator_.Fits(divided)) return divided;
    return space_.inputs_on_host ? std::optional(none) : std::nullopt;
  }

  bool Fits(const ParallelMapping& m) const { return evaluator_.Fits(m); }
  bool CanBe(const ParallelMapping& m) const {
    return CheckMapping(model_, m, space_.devices).ok();
  }

 private:
  const Evaluator& evaluator_;
  const TransformerConfig& model_;
  const MappingSpace& space_;
};

// The most layers that fit on a stage of one chunk, where all others share the rest.
int64_t MostLayersThatFit(const Evaluator& evaluator, const TransformerConfig& model,
                          ParallelMapping m, int32_t stage) {
  const auto fits = [&](int32_t layers) {
    m.layers = SpreadLayers(model.layers - layers, m.pipeline - 1);
    m.layers.insert(m.layers.begin() + stage, layers);
    return evaluator.StageFits(m, stage);
  };
  // Every other stage has one at least.
  const auto limit = static_cast<int32_t>(model.layers - m.pipeline + 1);
  if (fits(limit)) return limit;
  return LeastThatDoes(0, limit, [&](int32_t n) { return !fits(n); }) - 1;
}

}  // namespace

std::optional<ParallelMapping> MoveLayersToFit(const Evaluator& evaluator,
                                               const TransformerConfig& model,
                                               const ParallelMapping& mapping) {
  const bool line = mapping.chunks == 1 && !mapping.dual() && !mapping.returns();
  if (!line || mapping.pipeline == 1 || evaluator.Fits(mapping)) return std::nullopt;
  ParallelMapping moved = mapping;
  moved.counted_ends = false;
  std::vector<int64_t> most;
  int64_t room = 0;
  for (int32_t s = 0; s < mapping.pipeline; ++s) {
    most.push_back(MostLayersThatFit(evaluator, model, moved, s));
    if (most.back() == 0) return std::nullopt;
    room += most.back();
  }
  if (room < model.layers) return std::nullopt;
  const auto held = [&](int64_t level) {
    int64_t sum = 0;
    for (const int64_t n : most) sum += std::min(n, level);
    return sum;
  };
  int64_t level = 1;
  while (held(level) < model.layers) ++level;
  moved.layers.clear();
  for (const int64_t n : most) moved.layers.push_back(static_cast<int32_t>(std::min(n, level)));
  int64_t surplus = held(level) - model.layers;
  for (size_t s = most.size(); s-- > 0 && surplus > 0;) {
    if (moved.layers[s] < level) continue;
    --moved.layers[s];
    --surplus;
  }
  if (!CheckMapping(model, moved, 0).ok() || !evaluator.Fits(moved)) return std::nullopt;
  return moved;
}

std::optional<RankedMapping> ShiftLayersToBalance(const Evaluator& evaluator,
                                                  const TransformerConfig& model,
                                                  const RankedMapping& ranked,
                                                  const std::stop_token& stop) {
  const ParallelMapping& start = ranked.mapping;
  const bool line = start.chunks == 1 && !start.dual() && !start.returns();
  if (!line || start.pipeline == 1) return std::nullopt;
  RankedMapping best = ranked;
  best.mapping.counted_ends = false;
  if (best.mapping.layers.empty()) {
    best.mapping.layers = SpreadLayers(model.layers, start.pipeline);
  }
  bool found = false;
  const auto try_move = [&](const RankedMapping& now, size_t from, size_t to) {
    RankedMapping moved = now;
    if (stop.stop_requested() || from == to || moved.mapping.layers[from] < 2) return;
    --moved.mapping.layers[from];
    ++moved.mapping.layers[to];
    if (!CheckMapping(model, moved.mapping, 0).ok() || !evaluator.Fits(moved.mapping)) return;
    const auto evaluation = evaluator.Evaluate(moved.mapping);
    if (!evaluation.ok() || evaluation->iteration >= best.evaluation.iteration) return;
    moved.evaluation = *evaluation;
    best = std::move(moved);
    found = true;
  };
  const auto stages = static_cast<size_t>(start.pipeline);
  for (bool better = true; better;) {
    const RankedMapping now = best;
    for (size_t to = 0; to < stages; ++to) {
      try_move(now, stages - 1, to);
      try_move(now, 0, to);
    }
    better = best.evaluation.iteration < now.evaluation.iteration;
  }
  return found ? std::optional(best) : std::nullopt;
}

std::optional<ParallelMapping> MakeFit(const Evaluator& evaluator, const TransformerConfig& model,
                                       const MappingSpace& space, const ParallelMapping& mapping) {
  const Fitter fitter(evaluator, model, space);
  const bool none = mapping.recompute == Recompute::kNone;
  if (!space.recompute || (!none && mapping.recompute != Recompute::kFull)) return std::nullopt;
  const ParallelMapping plain = WithoutRecomputation(mapping);
  ParallelMapping full = plain;
  full.recompute = Recompute::kFull;
  if (!none && mapping != full) return std::nullopt;
  if (!none) return space.software == nullptr ? fitter.OtherInputs(full) : std::nullopt;
  const SomeLayers choice =
      space.software != nullptr ? space.software->some_layers : SomeLayers::kFirst;
  // What most mappings fail in comes first.
  if (choice == SomeLayers::kNone || !fitter.Fits(full) || !fitter.CanBe(full) ||
      fitter.Fits(mapping)) {
    return std::nullopt;
  }
  return fitter.FewestLayers(full, choice);
}

}  // namespace foretrace
