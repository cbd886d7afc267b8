#include "simulator/sharding/evaluator.h"

#include <algorithm>

#include "simulator/base/status_macros.h"
#include "simulator/engine/executor.h"

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
    if (item.kind == ItemKind::kComm) from = schedule.meeting_active[item.meeting];
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
      const SimTime active = schedule.meeting_active[program.items[k].meeting];
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

}  // namespace

SimulatedEvaluator::SimulatedEvaluator(const ShardingTask& task, ShardingModels models,
                                       std::unique_ptr<CollectiveTimes> collectives)
    : task_(task),
      models_(std::move(models)),
      collectives_(std::move(collectives)),
      lookups_(task, models_.kernels->device(), models_.embedding),
      dense_(BuildDenseWork(task, *models_.kernels)) {}

absl::StatusOr<std::unique_ptr<SimulatedEvaluator>> SimulatedEvaluator::Create(
    const ShardingTask& task, ShardingModels models) {
  FORETRACE_ASSIGN_OR_RETURN(
      std::unique_ptr<CollectiveTimes> collectives,
      CollectiveTimes::Create(models.platform, models.collectives, task.gpus, models.form));
  return std::unique_ptr<SimulatedEvaluator>(
      new SimulatedEvaluator(task, std::move(models), std::move(collectives)));
}

SimTime SimulatedEvaluator::TableStep(int64_t parameters) {
  if (parameters == 0) return {};
  SimTime time;
  for (const DenseKernel& k : OptimizerStep(task_, *models_.kernels, parameters, 1).kernels) {
    time += k.time;
  }
  return time;
}

absl::StatusOr<ShardedJob*> SimulatedEvaluator::Prepare(const PlanWork& work) {
  std::optional<ShardedJob>& job = jobs_[static_cast<size_t>(work.shape.index())];
  if (!job) {
    FORETRACE_ASSIGN_OR_RETURN(job, ShardedJob::Build(task_, dense_, work.shape, models_.semantics,
                                                      *collectives_));
  }
  job->SetWork(work, TableStep(work.copied_parameters));
  return &*job;
}

absl::StatusOr<const ShardedJob*> SimulatedEvaluator::Prepare(const ShardingPlan& plan) {
  return Prepare(WorkOf(task_, plan, lookups_, *collectives_));
}

absl::StatusOr<SimTime> SimulatedEvaluator::IterationTime(const ShardingPlan& plan) {
  ++evaluated_;
  FORETRACE_ASSIGN_OR_RETURN(const ShardedJob* job, Prepare(plan));
  FORETRACE_ASSIGN_OR_RETURN(const Schedule schedule,
                             RunStraight(job->store(), job->program(), nullptr));
  return schedule.makespan;
}

absl::StatusOr<PlanEvaluation> SimulatedEvaluator::Evaluate(const ShardingPlan& plan) {
  const PlanWork work = WorkOf(task_, plan, lookups_, *collectives_);
  FORETRACE_ASSIGN_OR_RETURN(const ShardedJob* job, Prepare(work));
  FORETRACE_ASSIGN_OR_RETURN(const Schedule schedule,
                             RunStraight(job->store(), job->program(), nullptr));
  PlanEvaluation evaluation;
  evaluation.iteration = schedule.makespan;
  evaluation.bytes = work.bytes;
  double longest = 0, total = 0;
  for (uint32_t r = 0; r < work.ranks.size(); ++r) {
    RankLoad load = LoadOf(*job, schedule, r);
    load.lookups = work.ranks[r].lookup_count;
    load.sent = work.ranks[r].sent;
    load.received = work.ranks[r].received;
    const double lookup_us = (load.busy[static_cast<size_t>(WorkPart::kLookupForward)] +
                              load.busy[static_cast<size_t>(WorkPart::kLookupBackward)]).us();
    longest = std::max(longest, lookup_us);
    total += lookup_us;
    evaluation.ranks.push_back(load);
  }
  if (total > 0) evaluation.lookup_imbalance = longest * static_cast<double>(work.ranks.size()) / total;
  AddSources(*job, schedule, models_.embedding.source, EstimateSource::kRecorded, evaluation);
  return evaluation;
}

}  // namespace foretrace
