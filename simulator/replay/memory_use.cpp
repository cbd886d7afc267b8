#include "simulator/replay/memory_use.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "simulator/base/error.h"
#include "simulator/replay/span_index.h"

namespace foretrace {
namespace {

constexpr size_t Index(MemoryPhase phase) { return static_cast<size_t>(phase); }

class RankLedger {
 public:
  RankLedger(const TraceStore& store, const RankTrace& rank, const ProfileExtras& extras)
      : store_(store),
        rank_(rank),
        extras_(extras),
        ops_(Ops()),
        modules_(Modules()),
        backward_(Backward()) {
    for (const ProfileExtras::Memory& m : extras.memory) {
      if (m.on_device) events_.push_back(&m);
    }
    std::stable_sort(events_.begin(), events_.end(),
                     [](const auto* a, const auto* b) { return a->at_ns < b->at_ns; });
  }

  bool empty() const { return events_.empty(); }

  RankMemory Peak() const {
    RankMemory out;
    out.rank = rank_.info().rank;
    const size_t peak = FindPeak(out);
    const SimTime at = Relative(events_[peak]->at_ns);
    out.step = rank_.iteration_at(at);
    out.at = at;
    Hold(peak, out);
    return out;
  }

 private:
  SimTime Relative(int64_t ns) const { return SimTime::FromNs(ns - rank_.info().origin_ns); }

  SpanIndex Ops() {
    std::vector<NamedSpan> spans;
    for (uint32_t i = 0; i < rank_.size(); ++i) {
      const NodeIndex n(i);
      const bool range =
          rank_.kind(n) == NodeKind::kCpuOp || rank_.kind(n) == NodeKind::kAnnotation;
      if (!range || !rank_.has_duration(n)) continue;
      spans.push_back({rank_.lane_at(rank_.lane(n)).id, rank_.start(n), rank_.end(n), i});
    }
    return SpanIndex(std::move(spans));
  }
  SpanIndex Modules() {
    std::vector<NamedSpan> spans;
    for (const ProfileExtras::Frame& f : extras_.frames) {
      if (!f.module) continue;
      spans.push_back({f.at.thread, Relative(f.at.start_ns), Relative(f.at.end_ns), f.name});
    }
    return SpanIndex(std::move(spans));
  }
  SpanIndex Backward() {
    std::vector<NamedSpan> spans;
    for (const ProfileExtras::Autograd& op : extras_.autograd) {
      if (!op.backward) continue;
      spans.push_back({op.at.thread, Relative(op.at.start_ns), Relative(op.at.end_ns), 0});
    }
    return SpanIndex(std::move(spans));
  }

  // The event after which most is allocated; the first of equals.
  size_t FindPeak(RankMemory& out) const {
    const bool totals =
        std::ranges::any_of(events_, [](const auto* m) { return m->allocated > 0; });
    out.relative = !totals;
    size_t peak = 0;
    int64_t most = -1, sum = 0;
    for (size_t i = 0; i < events_.size(); ++i) {
      sum += events_[i]->bytes;
      const int64_t now = totals ? events_[i]->allocated : sum;
      if (now > most) most = now, peak = i;
    }
    out.peak = Bytes(std::max<int64_t>(most, 0));
    out.reserved = Bytes(events_[peak]->reserved);
    return peak;
  }

  // What of the recorded allocations is alive after event `peak`, by what it was allocated in.
  void Hold(size_t peak, RankMemory& out) const {
    out.paired = std::ranges::any_of(events_, [](const auto* m) { return m->address != 0; });
    if (!out.paired) return;
    absl::flat_hash_map<int64_t, const ProfileExtras::Memory*> alive;
    for (size_t i = 0; i <= peak; ++i) {
      const ProfileExtras::Memory& m = *events_[i];
      if (m.bytes > 0) alive[m.address] = &m;
      if (m.bytes < 0) alive.erase(m.address);
    }
    std::map<std::pair<std::string, std::string>, MemoryHolder> holders;
    int64_t known = 0;
    for (const auto& [address, m] : alive) {
      known += m->bytes;
      out.phases[Index(PhaseOf(*m))] += Bytes(m->bytes);
      const std::string module = ModuleOf(*m), op = OpOf(*m);
      MemoryHolder& holder = holders[{module, op}];
      holder.module = module;
      holder.op = op;
      ++holder.allocations;
      holder.bytes += Bytes(m->bytes);
    }
    if (!out.relative) {
      out.phases[Index(MemoryPhase::kBefore)] +=
          Bytes(std::max<int64_t>(out.peak.count() - known, 0));
    }
    for (auto& [key, holder] : holders) out.holders.push_back(std::move(holder));
    std::stable_sort(
        out.holders.begin(), out.holders.end(),
        [](const MemoryHolder& a, const MemoryHolder& b) { return a.bytes > b.bytes; });
  }

  MemoryPhase PhaseOf(const ProfileExtras::Memory& m) const {
    const SimTime at = Relative(m.at_ns);
    if (backward_.At(m.thread, at) != SpanIndex::kNone) return MemoryPhase::kBackward;
    for (uint32_t e = ops_.At(m.thread, at); e != SpanIndex::kNone; e = ops_.entries()[e].parent) {
      const std::string_view name = store_.name(rank_, NodeIndex(ops_.entries()[e].span.name));
      if (name.starts_with("Optimizer.step")) return MemoryPhase::kOptimizer;
    }
    return MemoryPhase::kForward;
  }

  std::string OpOf(const ProfileExtras::Memory& m) const {
    const uint32_t e = ops_.At(m.thread, Relative(m.at_ns));
    if (e == SpanIndex::kNone) return "";
    return std::string(store_.name(rank_, NodeIndex(ops_.entries()[e].span.name)));
  }

  std::string ModuleOf(const ProfileExtras::Memory& m) const {
    const uint32_t e = modules_.At(m.thread, Relative(m.at_ns));
    if (e == SpanIndex::kNone) return "";
    std::string path;
    for (uint32_t at = e; at != SpanIndex::kNone; at = modules_.entries()[at].parent) {
      const std::string& name = extras_.names[modules_.entries()[at].span.name];
      path = path.empty() ? name : name + "." + path;
    }
    return path;
  }

  const TraceStore& store_;
  const RankTrace& rank_;
  const ProfileExtras& extras_;
  const SpanIndex ops_, modules_, backward_;
  std::vector<const ProfileExtras::Memory*> events_;  // of the device, in order of time
};

// From the recorded to the predicted time of a peak, since its step began.
SimTime PredictedSinceStep(const Prediction& prediction, RankIndex r, const RankMemory& memory) {
  const SimTime at = prediction.PredictedCpuTime(r, memory.at);
  for (const PredictedIteration& step : prediction.ranks[r].iterations) {
    if (step.number == memory.step) return at - step.predicted_start;
  }
  return at;
}

}  // namespace

std::string_view Name(MemoryPhase phase) {
  switch (phase) {
    case MemoryPhase::kBefore:
      return "before the recording";
    case MemoryPhase::kForward:
      return "forward";
    case MemoryPhase::kBackward:
      return "backward";
    case MemoryPhase::kOptimizer:
      return "optimizer";
    case MemoryPhase::kCount:
      break;
  }
  return "";
}

absl::StatusOr<std::vector<RankMemory>> MemoryUse(const TraceStore& store,
                                                  const Prediction& prediction,
                                                  std::span<const ProfileExtras> extras,
                                                  const AcceleratorCatalog& accelerators) {
  std::vector<RankMemory> all;
  for (RankIndex r = 0; r < store.ranks().size(); ++r) {
    const RankTrace& rank = store.ranks()[r];
    for (const ProfileExtras& e : extras) {
      if (rank.info().source.find(e.source) == std::string::npos) continue;
      const RankLedger ledger(store, rank, e);
      if (ledger.empty()) continue;
      RankMemory& memory = all.emplace_back(ledger.Peak());
      memory.at = PredictedSinceStep(prediction, r, memory);
      const Accelerator* device = accelerators.Find(rank.info().device_name);
      if (device != nullptr) memory.capacity = device->memory_capacity();
      break;
    }
  }
  if (all.empty()) {
    return Infeasible(
        "{}: no device memory is recorded; record with torch.profiler.profile(profile_memory=True)",
        store.ranks().front().info().source);
  }
  return all;
}

}  // namespace foretrace
