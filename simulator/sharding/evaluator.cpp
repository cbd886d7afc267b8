#include "simulator/sharding/evaluator.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/engine/executor.h"
#include "simulator/sharding/captured_load.h"
#include "simulator/sharding/plan_traces.h"

namespace foretrace {
namespace {

// Of one rank, from its schedule. Lanes: CPU, computation, communication.
RankLoad LoadOf(const ShardedJob& job, const Schedule& schedule, uint32_t rank) {
  const RankProgram& program = job.program().ranks[rank];
  const RankSchedule& times = schedule.ranks[rank];
  RankLoad load;
  for (uint32_t i = 0; i < program.items.size(); ++i) {
    const Item& item = program.items[i];
    SimTime from = times.start[i];
    if (item.kind == ItemKind::kComm) from = schedule.rendezvous_active[item.rendezvous];
    load.busy[static_cast<size_t>(job.parts()[i])] += times.end[i] - from;
  }
  const LaneProgram& compute = program.lanes[1];
  const LaneProgram& comm = program.lanes[2];
  // Gaps of computation, split by what the communication stream does meanwhile.
  SimTime free_from;
  uint32_t c = comm.begin;
  const auto gap = [&](SimTime from, SimTime to) {
    SimTime transfer, waiting;
    while (c < comm.end && times.end[c] <= from) ++c;
    for (uint32_t k = c; k < comm.end && times.start[k] < to; ++k) {
      const SimTime active = schedule.rendezvous_active[program.items[k].rendezvous];
      const auto overlap = [&](SimTime a, SimTime b) {
        return std::max(SimTime(), std::min(b, to) - std::max(a, from));
      };
      transfer += overlap(active, times.end[k]);
      waiting += overlap(times.start[k], active);
    }
    load.exposed_transfer += transfer;
    load.waiting += waiting;
    load.idle += to - from - transfer - waiting;
  };
  for (uint32_t i = compute.begin; i < compute.end; ++i) {
    if (times.start[i] > free_from) gap(free_from, times.start[i]);
    load.computing += times.end[i] - times.start[i];
    free_from = std::max(free_from, times.end[i]);
  }
  if (schedule.makespan > free_from) gap(free_from, schedule.makespan);
  return load;
}

void AddSources(const ShardedJob& job, const Schedule& schedule, EstimateSource lookups,
                EstimateSource cpu, PlanEvaluation& evaluation) {
  for (uint32_t r = 0; r < schedule.ranks.size(); ++r) {
    const RankProgram& program = job.program().ranks[r];
    for (uint32_t i = 0; i < program.items.size(); ++i) {
      const Item& item = program.items[i];
      const WorkPart part = job.parts()[i];
      EstimateSource source = item.source;
      SimTime time = item.duration;
      if (part == WorkPart::kLookupForward || part == WorkPart::kLookupBackward) source = lookups;
      if (part == WorkPart::kCpu) {
        if (item.kind == ItemKind::kBlocking) time = SimTime();
        time += item.lead;
        source = cpu;
      }
      evaluation.by_source[static_cast<size_t>(source)] += time;
    }
  }
}

// Summed over ranks.
SimTime ExtrapolatedTime(const PlanWork& work) {
  SimTime sum;
  for (const PlanWork::Rank& rank : work.ranks) {
    for (const LookupTimes* times : {&rank.lookups, &rank.table_copies}) {
      if (times->extrapolated) sum += times->forward + times->backward;
    }
  }
  for (const std::vector<Estimate>& step : work.comm) {
    for (const Estimate& estimate : step) {
      const auto members = static_cast<int64_t>(work.ranks.size() / step.size());
      if (estimate.extrapolated) sum += SimTime::FromPs(estimate.time.ps() * members);
    }
  }
  return sum;
}

// What a plan's work says of its evaluation, whatever it was simulated in.
void AddWork(const PlanWork& work, PlanEvaluation& evaluation) {
  evaluation.bytes = work.bytes;
  evaluation.extrapolated = ExtrapolatedTime(work);
  double longest = 0, total = 0;
  for (uint32_t r = 0; r < work.ranks.size(); ++r) {
    RankLoad& load = evaluation.ranks[r];
    load.lookups = work.ranks[r].lookup_count;
    load.sent = work.ranks[r].all_sent;
    load.received = work.ranks[r].all_received;
    const double lookup_us = (load.busy[static_cast<size_t>(WorkPart::kLookupForward)] +
                              load.busy[static_cast<size_t>(WorkPart::kLookupBackward)])
                                 .us();
    longest = std::max(longest, lookup_us);
    total += lookup_us;
  }
  if (total > 0) {
    evaluation.lookup_imbalance = longest * static_cast<double>(work.ranks.size()) / total;
  }
}

std::vector<uint32_t> AllRanks(size_t count) {
  std::vector<uint32_t> ranks(count);
  std::iota(ranks.begin(), ranks.end(), 0U);
  return ranks;
}

}  // namespace

std::vector<uint32_t> DecisiveRanks(const PlanWork& work) {
  std::vector<uint32_t> order = AllRanks(work.ranks.size());
  if (work.shape.table_row) return order;
  const auto same_copies = [&](const PlanWork::Rank& rank) {
    return rank.table_copies.forward == work.ranks.front().table_copies.forward &&
           rank.table_copies.backward == work.ranks.front().table_copies.backward;
  };
  if (!std::all_of(work.ranks.begin(), work.ranks.end(), same_copies)) return order;
  const auto times = [&](uint32_t rank) -> const LookupTimes& { return work.ranks[rank].lookups; };
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::tuple(-times(a).forward.ps(), -times(a).backward.ps(), a) <
           std::tuple(-times(b).forward.ps(), -times(b).backward.ps(), b);
  });
  std::vector<uint32_t> decisive;
  for (const uint32_t rank : order) {
    if (!decisive.empty() && times(rank).backward <= times(decisive.back()).backward) continue;
    decisive.push_back(rank);
    if (decisive.size() > kMostDecisiveRanks) return AllRanks(work.ranks.size());
  }
  return decisive;
}

SimulatedEvaluator::SimulatedEvaluator(const ShardingTask& task, ShardingModels models,
                                       std::unique_ptr<CollectiveTimes> collectives)
    : task_(task),
      models_(std::move(models)),
      collectives_(std::move(collectives)),
      lookups_(task, models_.kernels->device(), models_.embedding, models_.stack),
      dense_(BuildDenseWork(task, *models_.kernels,
                            models_.stack != nullptr && models_.stack->tensor_float32
                                ? Precision::kTensorFloat32
                                : Precision::kFloat32)),
      all_ranks_(AllRanks(static_cast<size_t>(task.gpus))) {}

absl::StatusOr<std::unique_ptr<SimulatedEvaluator>> SimulatedEvaluator::Create(
    const ShardingTask& task, ShardingModels models) {
  FORETRACE_ASSIGN_OR_RETURN(
      std::unique_ptr<CollectiveTimes> collectives,
      CollectiveTimes::Create(models.platform, models.collectives, task.gpus, models.form));
  std::shared_ptr<const TraceStore> capture = models.capture;
  std::unique_ptr<SimulatedEvaluator> evaluator(
      new SimulatedEvaluator(task, std::move(models), std::move(collectives)));
  if (capture == nullptr) return evaluator;
  for (const PlacementKind kind :
       {PlacementKind::kRow, PlacementKind::kTableRow, PlacementKind::kDataParallel}) {
    if (!task.allows(kind)) continue;
    return InvalidInput(
        "{}: placements: {} has collectives of its own, for which a captured template "
        "has no place; keep to table_wise and column_wise",
        task.file, Name(kind));
  }
  FORETRACE_ASSIGN_OR_RETURN(evaluator->template_,
                             TemplateJob::Create(std::move(capture), task.gpus));
  return evaluator;
}

SimTime SimulatedEvaluator::TableStep(int64_t parameters) {
  if (parameters == 0) return {};
  SimTime time;
  for (const DenseKernel& k : OptimizerStep(task_, *models_.kernels, parameters, 1).kernels) {
    time += k.time;
  }
  return time;
}

absl::StatusOr<ShardedJob*> SimulatedEvaluator::Prepare(const PlanWork& work,
                                                        std::span<const uint32_t> ranks) {
  const size_t count = ranks.size() == all_ranks_.size() ? 0 : ranks.size();
  std::optional<ShardedJob>& job = jobs_[static_cast<size_t>(work.shape.index())][count];
  if (!job) {
    FORETRACE_ASSIGN_OR_RETURN(
        job, ShardedJob::Build(task_, dense_, work.shape, models_.semantics, *collectives_,
                               static_cast<int32_t>(ranks.size()), models_.stack.get()));
  }
  job->SetWork(work, TableStep(work.copied_parameters), ranks);
  return &*job;
}

absl::StatusOr<const ShardedJob*> SimulatedEvaluator::Prepare(const ShardingPlan& plan) {
  return Prepare(WorkOf(task_, plan, lookups_, *collectives_), all_ranks_);
}

absl::StatusOr<TraceStore> SimulatedEvaluator::Traces(const ShardingPlan& plan) {
  const PlanWork work = WorkOf(task_, plan, lookups_, *collectives_);
  FORETRACE_ASSIGN_OR_RETURN(const ShardedJob* job, Prepare(work, all_ranks_));
  return PlanTraces(task_, *job, work, plan.sharder);
}

absl::StatusOr<SimTime> SimulatedEvaluator::IterationTime(const ShardingPlan& plan) {
  ++evaluated_;
  const PlanWork work = WorkOf(task_, plan, lookups_, *collectives_);
  if (template_ != nullptr) {
    template_->SetWork(work, lookups_.source());
    FORETRACE_ASSIGN_OR_RETURN(const Schedule schedule, template_->Run());
    return template_->IterationTime(schedule);
  }
  FORETRACE_ASSIGN_OR_RETURN(const ShardedJob* job, Prepare(work, DecisiveRanks(work)));
  FORETRACE_ASSIGN_OR_RETURN(const Schedule schedule,
                             Execute(job->store(), job->program(), nullptr));
  return schedule.makespan;
}

absl::StatusOr<PlanEvaluation> SimulatedEvaluator::Evaluate(const ShardingPlan& plan) {
  const PlanWork work = WorkOf(task_, plan, lookups_, *collectives_);
  if (template_ != nullptr) return EvaluateInCapture(work);
  FORETRACE_ASSIGN_OR_RETURN(const ShardedJob* job, Prepare(work, all_ranks_));
  FORETRACE_ASSIGN_OR_RETURN(const Schedule schedule,
                             Execute(job->store(), job->program(), nullptr));
  PlanEvaluation evaluation;
  evaluation.iteration = schedule.makespan;
  for (uint32_t r = 0; r < work.ranks.size(); ++r) {
    evaluation.ranks.push_back(LoadOf(*job, schedule, r));
  }
  AddSources(*job, schedule, lookups_.source(), EstimateSource::kRecorded, evaluation);
  AddWork(work, evaluation);
  return evaluation;
}

absl::StatusOr<PlanEvaluation> SimulatedEvaluator::EvaluateInCapture(const PlanWork& work) {
  template_->SetWork(work, lookups_.source());
  FORETRACE_ASSIGN_OR_RETURN(const Schedule schedule, template_->Run());
  PlanEvaluation evaluation;
  evaluation.iteration = template_->IterationTime(schedule);
  for (uint32_t r = 0; r < work.ranks.size(); ++r) {
    evaluation.ranks.push_back(CapturedLoad(*template_, schedule, r, evaluation.by_source));
    evaluation.ranks.back().busy[static_cast<size_t>(WorkPart::kLookupForward)] =
        work.ranks[r].lookups.forward;
    evaluation.ranks.back().busy[static_cast<size_t>(WorkPart::kLookupBackward)] =
        work.ranks[r].lookups.backward;
  }
  AddWork(work, evaluation);
  return evaluation;
}

}  // namespace foretrace
