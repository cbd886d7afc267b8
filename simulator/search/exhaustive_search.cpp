#include <algorithm>
#include <array>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>

#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/mapping/idle_choice.h"
#include "simulator/mapping/stack_choices.h"
#include "simulator/search/mapping_search.h"
#include "simulator/search/pareto_front.h"

namespace foretrace {
namespace {

// Candidates evaluated between two looks at the bound.
constexpr size_t kBatch = 256;

std::vector<int32_t> Divisors(int64_t n, int64_t limit) {
  std::vector<int32_t> divisors;
  for (int64_t d = 1; d <= std::min(n, limit); ++d) {
    if (n % d == 0) divisors.push_back(static_cast<int32_t>(d));
  }
  return divisors;
}

// Experts divided as other GEMMs are, or whole, and how tokens go to them. With software `m` is
// what Conform makes of divided ones, which some software has whole.
void AppendExperts(const TransformerConfig& model, const MappingSpace& space, ParallelMapping m,
                   std::vector<ParallelMapping>& all) {
  const auto append = [&] {
    if (CheckMapping(model, m, space.devices).ok()) all.push_back(m);
  };
  const bool whole = m.sequence_parallel && m.tensor > 1 && model.experts > 0;
  if (space.software != nullptr) {
    append();
    if (!whole || m.expert_tensor == 1) return;
    m.expert_tensor = 1;
    SetDispatch(*space.software, model, m);
    append();
    return;
  }
  for (m.expert_tensor = 0; m.expert_tensor <= (whole ? 1 : 0); ++m.expert_tensor) {
    for (const ExpertDispatch dispatch : space.dispatches) {
      // Where no token goes anywhere all are the same.
      if (m.expert == 1 && dispatch != space.dispatches.front()) continue;
      m.dispatch = m.expert == 1 ? ExpertDispatch::kAllToAll : dispatch;
      for (const bool overlap : {false, true}) {
        m.overlap_experts = overlap;
        if (overlap && (!space.overlap_experts || m.expert == 1 || !HasOppositePasses(m))) continue;
        append();
      }
    }
  }
}

// Weights divided within each node, whose links are faster (HYBRID_SHARD), where replicas are in
// several.
void AppendHybrid(const TransformerConfig& model, const MappingSpace& space, ParallelMapping m,
                  std::vector<ParallelMapping>& all) {
  const int32_t within = space.devices_per_node / m.tensor;
  if (m.zero < 3 || within < 2 || within >= m.replicas() || m.replicas() % within != 0) return;
  if (space.devices_per_node % m.tensor != 0) return;  // groups would not stay within nodes
  m.hybrid = within;
  m.overlap_gradients = false;
  AppendExperts(model, space, m, all);
}

// The choices that do not change degrees.
void AppendChoices(const TransformerConfig& model, const MappingSpace& space, ParallelMapping m,
                   std::vector<ParallelMapping>& all) {
  const bool replicated = m.replicas() > 1;
  for (int r = 0; r < (space.recompute ? 3 : 1); ++r) {
    m.recompute = static_cast<Recompute>(r);
    const bool selective = m.recompute == Recompute::kSelective;
    if (selective && space.software != nullptr && space.software->selective == Recompute::kFull) {
      continue;  // software without it
    }
    for (int32_t zero = LeastZero(space, m); zero <= MostZero(space, m); ++zero) {
      m.zero = zero;
      if (space.software != nullptr) {
        ParallelMapping by_itself = m;
        Conform(model, space, by_itself);
        // What another schedule of the space is already.
        const bool changed = by_itself.schedule != m.schedule;
        if (changed &&
            std::ranges::find(space.schedules, by_itself.schedule) != space.schedules.end()) {
          continue;
        }
        AppendExperts(model, space, by_itself, all);
        continue;
      }
      for (const bool sequence : {false, true}) {
        m.sequence_parallel = sequence;
        if (sequence && (!space.sequence_parallel || m.tensor == 1)) continue;
        for (const bool overlap : {false, true}) {
          m.overlap_gradients = overlap;
          if (overlap && (!space.overlap_gradients || !replicated || zero == 3)) continue;
          AppendExperts(model, space, m, all);
        }
        AppendHybrid(model, space, m, all);
      }
    }
  }
}

// Micro-batches, chunks, schedules and expert parallelism for given tensor, context, pipeline and
// data parallelism.
void AppendBatches(const TransformerConfig& model, const MappingSpace& space, ParallelMapping m,
                   std::vector<ParallelMapping>& all) {
  for (const int32_t b : Divisors(space.global_batch / m.data, space.max_micro_batch)) {
    m.micro_batch = b;
    const int32_t groups = m.replicas() * (space.sequence_parallel ? m.tensor : 1);
    for (const int32_t expert : Divisors(std::max<int64_t>(model.experts, 1), groups)) {
      m.expert = expert;
      for (const ScheduleKind schedule : space.schedules) {
        // Without a pipeline all schedules are the same.
        if (m.pipeline == 1 && schedule != space.schedules.front()) continue;
        m.schedule = m.pipeline == 1 ? ScheduleKind::k1F1B : schedule;
        const bool grouped = m.schedule == ScheduleKind::kKFKB;
        for (int32_t k = grouped ? 2 : 1; k <= (grouped ? 4 : 1); k *= 2) {
          m.k = k;
          const int32_t chunks = m.interleaves() ? space.max_chunks : m.returns() ? 2 : 1;
          for (m.chunks = m.returns() ? 2 : 1; m.chunks <= chunks; ++m.chunks) {
            DivideLayers(model, m);
            if (CheckStages(model, m).ok()) AppendChoices(model, space, m, all);
          }
        }
      }
    }
  }
}

// How parts of a sequence see one another's keys and values.
void AppendContext(const TransformerConfig& model, const MappingSpace& space, ParallelMapping m,
                   std::vector<ParallelMapping>& all) {
  AppendBatches(model, space, m, all);
  if (m.context == 1 || space.software != nullptr) return;
  m.ring = true;
  AppendBatches(model, space, m, all);
  std::swap(m.ring, m.ulysses);
  AppendBatches(model, space, m, all);
}

// What is worth evaluating, given the best so far.
class Frontier {
 public:
  explicit Frontier(size_t keep) : keep_(keep) {}
  void Add(SimTime time, Bytes memory, size_t index) {
    best_.insert(std::upper_bound(best_.begin(), best_.end(), std::pair(time, index)),
                 {time, index});
    if (best_.size() > keep_) best_.pop_back();
    points_.emplace_back(time, memory);
  }
  // `memory()`: of the candidate, asked for where its bound alone does not decide.
  template <typename Memory>
  bool Excludes(SimTime bound, const Memory& memory) const {
    if (keep_ == 0 || best_.size() < keep_ || bound <= best_.back().first) return false;
    const Bytes own = memory();
    return std::any_of(points_.begin(), points_.end(),
                       [&](const auto& p) { return p.first <= bound && p.second <= own; });
  }

 private:
  size_t keep_;
  std::vector<std::pair<SimTime, size_t>> best_;  // (time, candidate), ascending
  std::vector<std::pair<SimTime, Bytes>> points_;
};

// Candidates by their bounds, the lowest first, of which more come as others are evaluated.
class Promising {
 public:
  using Bounded = std::pair<SimTime, size_t>;
  // In order.
  explicit Promising(std::vector<Bounded> first) : first_(std::move(first)) {}

  bool empty() const { return at_ == first_.size() && more_.empty(); }
  void Add(const Bounded& candidate) { more_.push(candidate); }
  Bounded Take() {
    if (more_.empty() || (at_ < first_.size() && first_[at_] < more_.top())) return first_[at_++];
    const Bounded next = more_.top();
    more_.pop();
    return next;
  }

 private:
  std::vector<Bounded> first_;
  size_t at_ = 0;
  std::priority_queue<Bounded, std::vector<Bounded>, std::greater<>> more_;
};

absl::Status NothingFeasible(const Evaluator& evaluator,
                             const std::vector<ParallelMapping>& candidates) {
  if (candidates.empty()) {
    return Infeasible(
        "no mapping: no tensor, pipeline and data parallelism divides the devices, the layers and "
        "the batch; other numbers of devices or another global batch would help");
  }
  const auto nearest = std::min_element(
      candidates.begin(), candidates.end(),
      [&](const auto& a, const auto& b) { return evaluator.Memory(a) < evaluator.Memory(b); });
  return Infeasible("none of {} mappings fits; the one that needs least memory: {}",
                    candidates.size(),
                    std::string(evaluator.Evaluate(*nearest).status().message()));
}

}  // namespace

std::string_view Name(GemmFormat format) {
  static constexpr std::array<std::string_view, 4> kNames = {"model", "fp8", "mxfp8", "nvfp4"};
  return EnumName(kNames, format);
}

void SetFormat(GemmFormat format, ParallelMapping& m) {
  m.fp8 = format == GemmFormat::kFp8;
  m.mxfp8 = format == GemmFormat::kMxFp8;
  m.nvfp4 = format == GemmFormat::kNvFp4;
}

int32_t LeastZero(const MappingSpace& space, const ParallelMapping& mapping) {
  if (space.software == nullptr) return 0;
  return DividedAs(*space.software, space.software->zero, mapping);
}

int32_t MostZero(const MappingSpace& space, const ParallelMapping& mapping) {
  if (mapping.replicas() == 1) return 0;
  return std::max(space.max_zero, LeastZero(space, mapping));
}

void Conform(const TransformerConfig& model, const MappingSpace& space, ParallelMapping& mapping) {
  if (space.software == nullptr) return;
  if (mapping.recompute == Recompute::kSelective) mapping.recompute = space.software->selective;
  // What costs so little it does where nothing else is recomputed.
  if (mapping.recompute == Recompute::kNone && space.software->recompute == Recompute::kLight) {
    mapping.recompute = Recompute::kLight;
  }
  mapping.zero = std::clamp(mapping.zero, LeastZero(space, mapping), MostZero(space, mapping));
  const bool dual = mapping.dual();
  SetChoices(*space.software, model, mapping);
  if (!RunsInParts(mapping, space.devices_per_node)) mapping.chunked_tensor = false;
  // Software that runs 1F1B where DualPipe cannot be does so only where 1F1B is asked for.
  const bool plain = mapping.schedule == ScheduleKind::k1F1B;
  if (dual && plain &&
      std::ranges::find(space.schedules, mapping.schedule) == space.schedules.end()) {
    mapping.schedule = ScheduleKind::kDualPipe;
  }
}

void DivideLayers(const TransformerConfig& model, ParallelMapping& m) {
  const int64_t parts = int64_t{m.pipeline} * m.chunks;
  const bool uneven = model.layers % parts != 0;
  // Chunks without layers are not tried.
  const int64_t counted = model.layers + 2;
  m.counted_ends = uneven && counted % parts == 0 && counted >= 2 * parts;
  m.layers.clear();
  if (uneven && !m.counted_ends && m.chunks == 1 && model.layers > parts) {
    m.layers = SpreadLayers(model.layers, parts);
  }
}

std::vector<ParallelMapping> EnumerateMappings(const TransformerConfig& model,
                                               const MappingSpace& space) {
  std::vector<ParallelMapping> all;
  const std::vector<int32_t> tensor = Divisors(space.devices, space.max_tensor);
  for (const bool within_node : {true, false}) {
    for (const int32_t t : tensor) {
      if ((t <= space.devices_per_node) != within_node) continue;
      for (const int32_t c : Divisors(space.devices / t, space.max_context)) {
        for (const int32_t p : Divisors(space.devices / t / c, model.layers)) {
          const int64_t data = space.devices / t / c / p;
          if (data > space.global_batch || space.global_batch % data != 0) continue;
          ParallelMapping m;
          m.tensor = t;
          m.context = c;
          m.pipeline = p;
          m.data = static_cast<int32_t>(data);
          m.global_batch = space.global_batch;
          for (const GemmFormat format : space.formats) {
            SetFormat(format, m);
            AppendContext(model, space, m, all);
          }
        }
      }
    }
  }
  return all;
}

namespace {

// `found`: evaluations by index of the candidate.
void Rank(const std::vector<ParallelMapping>& candidates,
          std::vector<std::pair<size_t, Evaluation>> found, SearchResult& result) {
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return std::tuple(a.second.iteration, a.second.memory, a.first) <
           std::tuple(b.second.iteration, b.second.memory, b.first);
  });
  for (const auto& [index, evaluation] : found) {
    result.ranked.push_back({candidates[index], evaluation});
  }
}

// Candidates by their bounds, the promising first, so that these bite; nullopt: interrupted.
std::optional<std::vector<std::pair<SimTime, size_t>>> ByBounds(
    const Evaluator& evaluator, const std::vector<ParallelMapping>& candidates,
    const SearchControl& control) {
  std::vector<std::pair<SimTime, size_t>> order;
  constexpr size_t kLook = 1024;  // bounds between two looks for an interruption
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (i % kLook == 0 && control.bounding) {
      control.bounding(static_cast<int64_t>(i), static_cast<int64_t>(candidates.size()));
    }
    if (i % kLook == 0 && control.interrupted && control.interrupted()) return std::nullopt;
    order.emplace_back(evaluator.LowerBound(candidates[i]), i);
  }
  std::sort(order.begin(), order.end());
  return order;
}

}  // namespace

absl::StatusOr<SearchResult> SearchExhaustively(const Evaluator& evaluator,
                                                const EvaluateBatch& evaluate,
                                                const std::vector<ParallelMapping>& candidates,
                                                const SearchControl& control) {
  SearchResult result;
  result.candidates = static_cast<int64_t>(candidates.size());
  std::vector<ParallelMapping> tried = candidates;
  auto order = ByBounds(evaluator, candidates, control);
  if (!order) {
    result.interrupted = true;
    return result;
  }
  Promising promising(std::move(*order));
  Frontier frontier(control.keep);
  std::vector<std::pair<size_t, Evaluation>> found;
  for (int64_t done = 0; !promising.empty();) {
    if (control.progress) control.progress(done, result.candidates);
    if (control.interrupted && control.interrupted()) {
      result.interrupted = true;
      break;
    }
    std::vector<size_t> chosen;
    std::vector<ParallelMapping> batch;
    for (; !promising.empty() && batch.size() < kBatch; ++done) {
      const auto [bound, index] = promising.Take();
      if (frontier.Excludes(bound, [&] { return evaluator.Memory(tried[index]); })) {
        ++result.pruned;
        continue;
      }
      chosen.push_back(index);
      batch.push_back(tried[index]);
    }
    const auto answers = evaluate(batch);
    if (absl::IsCancelled(answers.status())) {
      result.interrupted = true;
      break;
    }
    FORETRACE_RETURN_IF_ERROR(answers.status());
    const auto& evaluations = *answers;
    for (size_t i = 0; i < chosen.size(); ++i) {
      if (evaluations[i]) {
        ++result.evaluated;
        found.emplace_back(chosen[i], *evaluations[i]);
        frontier.Add(evaluations[i]->iteration, evaluations[i]->memory, chosen[i]);
        continue;
      }
      ++result.infeasible;
      if (!control.instead) continue;
      for (ParallelMapping& other : control.instead(batch[i])) {
        promising.Add({evaluator.LowerBound(other), tried.size()});
        tried.push_back(std::move(other));
        ++result.candidates;
      }
    }
  }
  if (control.progress) control.progress(result.candidates, result.candidates);
  Rank(tried, std::move(found), result);
  if (result.ranked.empty() && !result.interrupted) return NothingFeasible(evaluator, candidates);
  result.pareto = TimeMemoryFront(result.ranked);
  return result;
}

}  // namespace foretrace
