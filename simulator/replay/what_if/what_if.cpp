#include "simulator/replay/what_if/what_if.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/engine/comm_edits.h"
#include "simulator/engine/move_streams.h"
#include "simulator/engine/restructure.h"

namespace foretrace {
namespace {

// The name of a rendezvous's communicator.
std::string_view CommunicatorOf(const CompiledJob& job, uint32_t rendezvous) {
  const CommunicatorMap& map = job.communicators;
  if (rendezvous >= map.rendezvous.size()) return "";
  return map.communicators[map.rendezvous[rendezvous].communicator].name;
}

bool ParseNumber(std::string_view text, double& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0 && value < 1e12;
}

// "50MB", "25MiB"; false when it is none.
bool ParseBytes(std::string_view text, int64_t& bytes) {
  static constexpr std::pair<std::string_view, double> kUnits[] = {
      {"MiB", 1 << 20}, {"MB", 1e6}, {"KiB", 1 << 10}, {"KB", 1e3}, {"GiB", 1 << 30}, {"GB", 1e9}};
  for (const auto& [unit, factor] : kUnits) {
    double value = 0;
    if (!text.ends_with(unit) || !ParseNumber(text.substr(0, text.size() - unit.size()), value)) {
      continue;
    }
    if (value * factor < 1 || value * factor > 1e15) return false;
    bytes = static_cast<int64_t>(value * factor);
    return true;
  }
  return false;
}

bool ParseWhole(std::string_view text, int64_t least, int64_t most, int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= least &&
         number <= most;
}

absl::Status SelectsNothing(std::string_view text, std::string_view what) {
  return InvalidInput(
      "--what-if {}: selects no {} in these traces; `foretrace inspect --kernels` and `--ops` list "
      "what there is, `foretrace inspect` ranks, streams, steps and communicators",
      text, what);
}

}  // namespace

bool ParseTime(std::string_view text, SimTime& time) {
  static constexpr std::pair<std::string_view, double> kUnits[] = {
      {"us", 1.0}, {"ms", 1e3}, {"s", 1e6}};
  for (const auto& [unit, microseconds] : kUnits) {
    double value = 0;
    if (!text.ends_with(unit) || !ParseNumber(text.substr(0, text.size() - unit.size()), value)) {
      continue;
    }
    // A day is longer than any step, and far from where times overflow.
    if (value * microseconds > 86400e6) return false;
    time = SimTime::FromUs(value * microseconds);
    return true;
  }
  return false;
}

absl::StatusOr<WhatIf::Edit> WhatIf::ParseEdit(const std::string& text) {
  // Names may hold colons ("nccl:all_reduce"): the action follows the last one.
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) {
    return InvalidInput("--what-if {}: expected SELECTOR:ACTION, such as kind=collective:x0.5",
                        text);
  }
  Edit edit;
  edit.text = text;
  FORETRACE_ASSIGN_OR_RETURN(
      edit.selector, ParseSelector("--what-if " + text, std::string_view(text).substr(0, colon),
                                   SelectorScope::kAllWork));
  const std::string_view action = std::string_view(text).substr(colon + 1);
  bool ok = false;
  if (action.starts_with("x")) {
    ok = ParseNumber(action.substr(1), edit.change.factor) && edit.change.factor <= 1e6;
  } else if (action.starts_with("=")) {
    edit.change.factor = 0;
    ok = ParseTime(action.substr(1), edit.change.added);
  } else if (action.starts_with("+")) {
    ok = ParseTime(action.substr(1), edit.change.added);
  } else if (action.starts_with("delay=")) {
    edit.action = Action::kDelay;
    ok = ParseTime(action.substr(6), edit.delay);
    if (ok && !edit.selector.selects_whole_ranks()) {
      return InvalidInput(
          "--what-if {}: delay= says when ranks begin, so that only rank= can select them; +{} "
          "makes selected work longer",
          text, action.substr(6));
    }
  } else if (action.starts_with("stream=")) {
    edit.action = Action::kStream;
    ok = ParseWhole(action.substr(7), 0, INT32_MAX, edit.number);
  } else if (action.starts_with("ranks=")) {
    edit.action = Action::kRanks;
    ok = ParseWhole(action.substr(6), 2, 1 << 20, edit.number);
  } else if (action.starts_with("buckets=")) {
    edit.action = Action::kBuckets;
    ok = ParseBytes(action.substr(8), edit.number);
  } else if (action == "remove" || action == "fuse" || action == "graph") {
    edit.action = action == "remove" ? Action::kRemove
                  : action == "fuse" ? Action::kFuse
                                     : Action::kGraph;
    ok = true;
  }
  if (ok) return edit;
  return InvalidInput(
      "--what-if {}: cannot read the action \"{}\"; expected x0.5 (at most x1000000), =12us, +3us "
      "(us, ms, s; at most a day), remove, fuse, graph, stream=40, ranks=64, buckets=50MB or "
      "delay=1ms",
      text, action);
}

absl::StatusOr<WhatIf> WhatIf::Parse(const std::vector<std::string>& texts) {
  WhatIf what_if;
  for (const std::string& text : texts) {
    FORETRACE_ASSIGN_OR_RETURN(Edit edit, ParseEdit(text));
    what_if.edits_.push_back(std::move(edit));
  }
  return what_if;
}

bool WhatIf::edits_overheads() const {
  return std::any_of(edits_.begin(), edits_.end(),
                     [](const Edit& edit) { return edit.selector.selects_cpu_work(); });
}

bool WhatIf::selects_modules() const {
  return std::any_of(edits_.begin(), edits_.end(),
                     [](const Edit& edit) { return edit.selector.module != nullptr; });
}

void WhatIf::SetModules(const std::shared_ptr<const ModuleMap>& modules) {
  for (Edit& edit : edits_) edit.selector.modules = modules;
}

bool WhatIf::resizes_collectives() const {
  return scale_.has_value() || std::any_of(edits_.begin(), edits_.end(), [](const Edit& edit) {
           return edit.action == Action::kRanks || edit.action == Action::kBuckets;
         });
}

ItemSet WhatIf::SelectDeviceWork(const Edit& edit, const TraceStore& store, const CompiledJob& job,
                                 const Program& program) {
  return SelectItems(program, [&](uint32_t r, const Item& item) {
    if (item.kind == ItemKind::kBlocking) return false;
    const RankTrace& rank = store.ranks()[r];
    // Calls of symbolic traces have durations of their own.
    if (item.kind == ItemKind::kCall && !(job.symbolic && rank.has_duration(item.node))) {
      return false;
    }
    const std::string_view communicator =
        item.kind == ItemKind::kComm ? CommunicatorOf(job, item.rendezvous) : std::string_view();
    return edit.selector.Selects(store, rank, item.node, communicator);
  });
}

absl::Status WhatIf::ApplyToDevice(const Edit& edit, const TraceStore& store, CompiledJob& job,
                                   const ItemSet& items, NetworkModel* network, Program& program) {
  if (items.empty()) return SelectsNothing(edit.text, "device work");
  if (edit.action == Action::kRanks || edit.action == Action::kBuckets) {
    return ChangeCollectives(edit, store, job, items, network, program);
  }
  if (edit.action != Action::kChange) return Restructure(edit, store, job, items, program);
  ChangeDurations(program, items, edit.change);
  return absl::OkStatus();
}

absl::Status WhatIf::Restructure(const Edit& edit, const TraceStore& store, const CompiledJob& job,
                                 const ItemSet& items, Program& program) {
  if (job.symbolic || job.semantics != Semantics::kFull) {
    return InvalidInput("--what-if {}: only recorded jobs can be restructured, and not with {}",
                        edit.text, "--semantics algorithm1");
  }
  if (edit.action == Action::kRemove) {
    RemoveDeviceWork(program, items);
    return absl::OkStatus();
  }
  if (edit.action == Action::kStream) {
    std::vector<LaneIndex> streams(store.ranks().size());
    for (size_t r = 0; r < streams.size(); ++r) {
      const std::span<const Lane> lanes = store.ranks()[r].lanes();
      for (uint32_t l = 0; l < lanes.size(); ++l) {
        const bool named = lanes[l].kind == Lane::Kind::kStream && lanes[l].id == edit.number;
        if (named) streams[r] = LaneIndex(l);
      }
    }
    if (MoveToStream(program, items, streams) > 0) return absl::OkStatus();
    return InvalidInput("--what-if {}: all of it runs on that stream", edit.text);
  }
  // Within each call or range that op= names; without it, all neighbours.
  const GroupOf group_of = [&](uint32_t r, const Item& item) {
    const RankTrace& rank = store.ranks()[r];
    const NodeIndex launcher = rank.launcher(item.node);
    NodeIndex at = rank.parent(launcher.valid() ? launcher : item.node);
    for (; at.valid() && edit.selector.op != nullptr; at = rank.parent(at)) {
      if (Matches(*edit.selector.op, store.name(rank, at))) return at.value;
    }
    return uint32_t{0};
  };
  const size_t saved = edit.action == Action::kFuse ? FuseDeviceWork(program, items, group_of)
                                                    : CaptureGraphs(program, items, group_of);
  if (saved > 0) return absl::OkStatus();
  return InvalidInput("--what-if {}: no two neighbours to {}", edit.text,
                      edit.action == Action::kFuse ? "fuse" : "capture in a graph");
}

absl::Status WhatIf::ChangeCollectives(const Edit& edit, const TraceStore& store, CompiledJob& job,
                                       const ItemSet& items, NetworkModel* network,
                                       Program& program) {
  const bool ranks = edit.action == Action::kRanks;
  if (job.symbolic || job.semantics != Semantics::kFull) {
    return InvalidInput("--what-if {}: only recorded jobs can be restructured, and not with {}",
                        edit.text, "--semantics algorithm1");
  }
  if (ranks && network == nullptr) {
    return InvalidInput(
        "--what-if {}: how long collectives of more or fewer ranks take is asked of a network: "
        "name "
        "a --platform that holds them (`foretrace list platforms`)",
        edit.text);
  }
  const auto changed = ranks ? ChangeGroupSize(store, job, items, static_cast<int32_t>(edit.number),
                                               *network, program)
                             : ChangeBuckets(edit, store, job, items, network, program);
  if (!changed.ok()) {
    return InvalidInput("--what-if {}: {}", edit.text, std::string(changed.status().message()));
  }
  if (*changed > 0) return absl::OkStatus();
  if (ranks) return SelectsNothing(edit.text, "collectives that meet");
  return InvalidInput(
      "--what-if {}: no all-reduce or reduce-scatter holds twice as much, and no two neighbours of "
      "a "
      "step and communicator begin with one that holds less",
      edit.text);
}

absl::StatusOr<size_t> WhatIf::ChangeBuckets(const Edit& edit, const TraceStore& store,
                                             CompiledJob& job, const ItemSet& items,
                                             NetworkModel* network, Program& program) {
  const Bytes bytes(edit.number);
  FORETRACE_ASSIGN_OR_RETURN(const size_t more,
                             SplitBuckets(store, job, items, bytes, network, program));
  const ItemSet split = SelectDeviceWork(edit, store, job, program);
  FORETRACE_ASSIGN_OR_RETURN(const size_t gone,
                             MergeBuckets(store, job, split, bytes, network, program));
  return more + gone;
}

absl::Status WhatIf::ApplyToCpu(const Edit& edit, const TraceStore& store, Program& program) {
  const NodeSelector& selector = edit.selector;
  const ItemSet calls = SelectItems(program, [&](uint32_t r, const Item& item) {
    const RankTrace& rank = store.ranks()[r];
    const bool call = item.kind == ItemKind::kCall || item.kind == ItemKind::kBlocking;
    return call && rank.kind(item.node) == NodeKind::kRuntimeCall &&
           selector.SelectsCall(store, rank, item.node);
  });
  const bool remove = edit.action == Action::kRemove;
  if (!remove && edit.action != Action::kChange) {
    return InvalidInput("--what-if {}: only device work can be fused or captured in graphs",
                        edit.text);
  }
  const DurationChange change = remove ? DurationChange{0, SimTime()} : edit.change;
  size_t parts = 0;
  if (selector.call == nullptr) {
    if (change.added != SimTime()) {
      return InvalidInput(
          "--what-if {}: the overhead of a framework call lies in several parts, so that only xF "
          "and "
          "remove are clear",
          edit.text);
    }
    parts = ChangeOverheads(
        program,
        [&](uint32_t r, const Item& item, const OverheadPart& part) {
          const RankTrace& rank = store.ranks()[r];
          return part.kind != OverheadKind::kT1 && selector.SelectsRank(rank.info().rank) &&
                 selector.SelectsStepOf(rank, rank.start(item.node)) &&
                 Matches(*selector.cpu, store.strings().Get(part.op));
        },
        change);
  }
  if (parts == 0 && calls.empty()) return SelectsNothing(edit.text, "CPU work");
  ItemSet timed = calls;
  if (remove && selector.call != nullptr) {
    StopBlocking(program, calls);
  } else {
    // What a blocking call takes is what it waits for.
    for (uint32_t r = 0; r < timed.ranks.size(); ++r) {
      std::erase_if(timed.ranks[r], [&](uint32_t i) {
        return program.ranks[r].items[i].kind == ItemKind::kBlocking;
      });
    }
    if (parts == 0 && timed.empty()) {
      return InvalidInput(
          "--what-if {}: these calls take what they wait for; :remove makes them wait for nothing",
          edit.text);
    }
  }
  ChangeDurations(program, timed, change);
  return absl::OkStatus();
}

absl::Status WhatIf::NoteChanges(const Edit& edit, const ItemSet& items, const Program& program,
                                 std::vector<Changed>& changes) {
  if (edit.action != Action::kChange && edit.action != Action::kRemove) return absl::OkStatus();
  Changed changed{&edit, {}};
  for (uint32_t r = 0; r < items.ranks.size(); ++r) {
    for (const uint32_t i : items.ranks[r]) {
      changed.nodes.emplace_back(r, program.ranks[r].items[i].node);
    }
  }
  std::ranges::sort(changed.nodes);
  const bool forgets = edit.action == Action::kRemove || edit.change.replaces();
  for (const Changed& earlier : changes) {
    if (forgets && std::ranges::includes(changed.nodes, earlier.nodes)) {
      return InvalidInput(
          "--what-if {}: would change nothing, since --what-if {} decides how long all of that "
          "takes",
          earlier.edit->text, edit.text);
    }
  }
  changes.push_back(std::move(changed));
  return absl::OkStatus();
}

absl::Status WhatIf::Apply(const TraceStore& store, CompiledJob& job, NetworkModel* network,
                           Program& program) const {
  std::vector<Changed> changes;
  for (const Edit& edit : edits_) {
    if (edit.action == Action::kDelay) {
      bool any = false;
      for (uint32_t r = 0; r < program.ranks.size(); ++r) {
        if (!edit.selector.SelectsRank(store.ranks()[r].info().rank)) continue;
        program.ranks[r].start += edit.delay;
        any = true;
      }
      if (!any) return SelectsNothing(edit.text, "ranks");
    } else if (edit.selector.selects_cpu_work()) {
      FORETRACE_RETURN_IF_ERROR(ApplyToCpu(edit, store, program));
    } else {
      const ItemSet items = SelectDeviceWork(edit, store, job, program);
      if (edits_.size() > 1) {
        FORETRACE_RETURN_IF_ERROR(NoteChanges(edit, items, program, changes));
      }
      FORETRACE_RETURN_IF_ERROR(ApplyToDevice(edit, store, job, items, network, program));
    }
  }
  return scale_ ? scale_->Apply(store, job, network, program) : absl::OkStatus();
}

WhatIf WhatIf::WithoutScaleOut() const {
  WhatIf other = *this;
  other.scale_.reset();
  return other;
}

WhatIf WhatIf::With(LastArrival last) const {
  WhatIf other = *this;
  if (other.scale_) other.scale_->set_last(last);
  return other;
}

}  // namespace foretrace
