#include "simulator/replay/what_if/sensitivity.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "simulator/base/status_macros.h"
#include "simulator/engine/edit.h"
#include "simulator/engine/executor.h"
#include "simulator/replay/what_if/node_selector.h"
#include "simulator/report/classify.h"

namespace foretrace {
namespace {

constexpr double kLittleMore = 1.01;

// All of one kind of work: items and parts of leads, over all copies of the step.
struct WorkClass {
  ItemSet items;
  std::vector<std::pair<uint32_t, uint32_t>> overheads;  // rank, index in RankProgram::overheads
  std::vector<SimTime> time;                             // by rank, all copies
  int64_t count = 0;
  bool blocking = false;

  SimTime longest() const { return *std::max_element(time.begin(), time.end()); }
};

class Sweep {
 public:
  Sweep(const TraceStore& store, const CompiledJob& job, RepeatedStep step, NetworkModel* network)
      : store_(store), job_(job), step_(std::move(step)), network_(network), classifier_(store) {}

  absl::StatusOr<std::vector<SensitivityRow>> Run(size_t limit) {
    FORETRACE_ASSIGN_OR_RETURN(const Schedule schedule, Execute(store_, step_.program, network_));
    period_ = Period(schedule);
    for (uint32_t r = 0; r < step_.program.ranks.size(); ++r) Classify(r, schedule);
    std::vector<SensitivityRow> rows;
    for (auto& [kind, classes] : classes_) {
      std::vector<std::pair<SimTime, const std::string*>> largest;
      for (const auto& [name, work] : classes) largest.emplace_back(-work.longest(), &name);
      std::stable_sort(largest.begin(), largest.end(),
                       [](const auto& a, const auto& b) { return a.first < b.first; });
      if (largest.size() > limit) largest.resize(limit);
      for (const auto& [time, name] : largest) {
        FORETRACE_ASSIGN_OR_RETURN(SensitivityRow row, Measure(classes.at(*name)));
        row.kind = kind;
        row.name = *name;
        rows.push_back(std::move(row));
      }
    }
    std::stable_sort(
        rows.begin(), rows.end(),
        [](const SensitivityRow& a, const SensitivityRow& b) { return a.gain > b.gain; });
    return rows;
  }

 private:
  SimTime Period(const Schedule& schedule) const {
    return step_.Took(schedule, step_.copies - 2, step_.copies - 1);
  }

  void Add(const char* kind, std::string_view name, uint32_t rank, SimTime time, auto insert) {
    WorkClass& work = classes_[kind][name.empty() ? "(no call)" : std::string(name)];
    if (work.time.empty()) {
      work.time.resize(step_.program.ranks.size());
      work.items.ranks.resize(step_.program.ranks.size());
    }
    work.time[rank] += time;
    insert(work);
  }

  void Classify(uint32_t r, const Schedule& schedule) {
    const RankTrace& trace = store_.ranks()[r];
    const RankProgram& program = step_.program.ranks[r];
    const auto name_of = [&](NodeIndex n) {
      return n.valid() ? store_.name(trace, n) : std::string_view();
    };
    for (uint32_t i = 0; i < program.items.size(); ++i) {
      const Item& item = program.items[i];
      const auto add_item = [&](WorkClass& work) {
        work.items.ranks[r].push_back(i);
        ++work.count;
      };
      const SimTime took = schedule.ranks[r].end[i] - schedule.ranks[r].start[i];
      if (item.kind == ItemKind::kDevice) {
        Add("op", name_of(classifier_.FrameworkOp(r, item.node)), r, item.duration, add_item);
      } else if (item.kind == ItemKind::kComm) {
        const SimTime active = schedule.rendezvous_active[item.rendezvous];
        Add("communicator", NameOfRendezvous(r, item), r,
            schedule.ranks[r].end[i] - std::max(active, schedule.ranks[r].start[i]), add_item);
      } else if (item.kind == ItemKind::kBlocking) {
        const std::string_view op = name_of(classifier_.FrameworkOp(r, item.node));
        const std::string name =
            std::string(name_of(item.node)) + (op.empty() ? "" : " in ") + std::string(op);
        Add("synchronise", name, r, took, [&](WorkClass& work) {
          add_item(work);
          work.blocking = true;
        });
      } else if (trace.kind(item.node) == NodeKind::kRuntimeCall) {
        Add("cpu", name_of(OutermostCall(trace, item.node)), r, item.duration, add_item);
      }
    }
    for (uint32_t p = 0; p < program.overheads.size(); ++p) {
      const OverheadPart& part = program.overheads[p];
      const std::string_view name = part.kind == OverheadKind::kT1
                                        ? std::string_view("(between calls)")
                                        : store_.strings().Get(part.op);
      Add("cpu", name, r, part.time, [&](WorkClass& work) { work.overheads.emplace_back(r, p); });
    }
  }

  // All operations of a communicator together; the name of the program's rendezvous is that of the
  // node's.
  std::string NameOfRendezvous(uint32_t r, const Item& item) {
    if (names_.empty()) {
      names_.resize(store_.ranks().size());
      for (const MatchedRendezvous& rendezvous : job_.communicators.rendezvous) {
        for (const auto& m : rendezvous.members)
          names_[m.rank][m.node.value] = rendezvous.communicator;
      }
    }
    const RankTrace& trace = store_.ranks()[r];
    const std::string what(trace.kind(item.node) == NodeKind::kCollective
                               ? Name(trace.collective_op(item.node))
                               : Name(trace.kind(item.node)));
    const auto found = names_[r].find(item.node.value);
    if (found == names_[r].end()) return what;
    return what + " of " + job_.communicators.communicators[found->second].name;
  }

  // Of the step with all of `work` changed.
  absl::StatusOr<SimTime> Changed(const WorkClass& work, double factor) {
    Program changed = step_.program;
    for (const auto& [r, p] : work.overheads) {
      const OverheadPart& part = changed.ranks[r].overheads[p];
      changed.ranks[r].items[part.item].lead += part.time.ScaledBy(factor) - part.time;
    }
    if (work.blocking) StopBlocking(changed, work.items);
    ChangeDurations(changed, work.items, {factor, SimTime()});
    FORETRACE_ASSIGN_OR_RETURN(const Schedule schedule, Execute(store_, changed, network_));
    return Period(schedule);
  }

  absl::StatusOr<SensitivityRow> Measure(const WorkClass& work) {
    SensitivityRow row;
    row.count = work.count / step_.copies;
    row.time = SimTime::FromPs(work.longest().ps() / step_.copies);
    FORETRACE_ASSIGN_OR_RETURN(const SimTime without, Changed(work, 0));
    row.gain = period_ - without;
    if (row.time <= SimTime()) return row;
    if (work.blocking) {
      row.cost = row.gain.us() / row.time.us();
    } else {
      FORETRACE_ASSIGN_OR_RETURN(const SimTime more, Changed(work, kLittleMore));
      row.cost = (more - period_).us() / ((kLittleMore - 1) * row.time.us());
    }
    return row;
  }

  const TraceStore& store_;
  const CompiledJob& job_;
  RepeatedStep step_;
  NetworkModel* network_;
  Classifier classifier_;
  SimTime period_;
  std::map<std::string, std::map<std::string, WorkClass>> classes_;
  std::vector<std::map<uint32_t, uint32_t>> names_;  // by rank: node -> communicator
};

}  // namespace

absl::StatusOr<std::vector<SensitivityRow>> ComputeSensitivity(const TraceStore& store,
                                                               const CompiledJob& job, int64_t step,
                                                               NetworkModel* network,
                                                               size_t limit) {
  FORETRACE_ASSIGN_OR_RETURN(const SteadyState steady,
                             FindSteadyState(store, job.program, step, network));
  FORETRACE_ASSIGN_OR_RETURN(RepeatedStep repeated,
                             RepeatStep(store, job.program, step, steady.copies));
  return Sweep(store, job, std::move(repeated), network).Run(limit);
}

}  // namespace foretrace
