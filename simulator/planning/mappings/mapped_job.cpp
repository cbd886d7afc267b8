#include "simulator/planning/mappings/mapped_job.h"

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "simulator/base/counted.h"
#include "simulator/base/error.h"
#include "simulator/base/real_sizes.h"
#include "simulator/base/status_macros.h"
#include "simulator/mapping/group_costs.h"
#include "simulator/mapping/mapping_plan.h"
#include "simulator/mapping/memory_model.h"
#include "simulator/mapping/reserved_memory.h"
#include "simulator/mapping/stack_choices.h"
#include "simulator/mapping/stage_plan.h"
#include "simulator/search/coarsen.h"
#include "simulator/search/mapping_search.h"
#include "simulator/search/operator_times.h"
#include "simulator/search/workload_problem.h"

namespace foretrace {
namespace {

// Of the operators that are searched over, in their order: a transformer's block is one.
std::vector<std::string> OperatorNames(const TrainingJob& job) {
  std::vector<std::string> names;
  std::set<int32_t> blocks;
  for (const Operator& op : job.model.workload.operators) {
    if (!job.model.transformer || op.block < 0) {
      names.push_back(op.name);
    } else if (blocks.insert(op.block).second) {
      names.push_back(fmt::format("block {}", op.block));
    }
  }
  // Names of built models need not be unique.
  std::map<std::string, int> seen;
  for (std::string& name : names) {
    const int count = seen[name]++;
    if (count > 0) name += fmt::format(" #{}", count + 1);
  }
  return names;
}

StageMapping MappingOf(const GraphPipeProblem& problem, const GraphSearchResult& result) {
  StageMapping mapping;
  mapping.mini_batch = problem.mini_batch;
  mapping.sequential = result.sequential;
  for (const GraphPipeStage& stage : result.plan.stages) {
    StagePlacement placement;
    for (const int32_t op : stage.ops) {
      placement.operators.push_back(problem.ops[static_cast<size_t>(op)].name);
    }
    for (const int32_t op : stage.recomputed) {
      placement.recomputed.push_back(problem.ops[static_cast<size_t>(op)].name);
    }
    placement.devices = stage.devices;
    placement.tensor = stage.tensor;
    placement.config = stage.config;
    mapping.stages.push_back(std::move(placement));
  }
  return mapping;
}

GraphPipeProblem As(const GraphPipeProblem& problem, const GraphSearchResult& result) {
  GraphPipeProblem p = problem;
  p.sequential = result.sequential;
  return p;
}

absl::StatusOr<JobPlan> PlanOfGraph(const EvaluatedGraph& graph, DType dtype) {
  const GraphPipePlan& plan = graph.result.plan;
  const TimedPipeline pipeline = TimedPipelineOf(graph.problem, plan);
  std::vector<PlacedStage> stages;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const GradientReduction sum = ReductionOf(graph.problem, plan.stages[s]);
    stages.push_back({fmt::format("{} operators", plan.stages[s].ops.size()),
                      plan.stages[s].devices, plan.stages[s].tensor,
                      SimTime::FromSeconds(sum.time.seconds()), WholeBytes(sum.bytes.count())});
  }
  std::vector<Bytes> edge_bytes;
  for (const TimedEdge& e : pipeline.edges) {
    // What the transfer's time stands for, between two devices.
    edge_bytes.emplace_back(
        std::max<int64_t>(1, static_cast<int64_t>(e.forward_transfer.seconds() *
                                                  graph.problem.bandwidth.bytes_per_second())));
  }
  return PlanOfStages(pipeline, stages, edge_bytes, dtype);
}

// As mappings' exchanges; what the network cannot time, by rings at `bandwidth`.
std::function<RealSeconds(int32_t, int32_t, RealBytes)> AllReduces(const ClusterParameters& cluster,
                                                                   Bandwidth bandwidth) {
  return [cluster, bandwidth](int32_t replicas, int32_t span, RealBytes bytes) {
    const ParallelMapping undivided;
    absl::Status status;
    const GroupCosts groups(undivided, cluster, status);
    const SimTime time =
        groups.Collective(CollectiveOp::kAllReduce, {replicas, span}, bytes.count());
    return status.ok() ? RealSeconds(time.seconds())
                       : 2.0 * (replicas - 1) / replicas * bytes / bandwidth;
  };
}

}  // namespace

absl::StatusOr<GraphPipeProblem> GraphProblemOf(const TrainingJob& job, int32_t mini_batch,
                                                int32_t max_tensor) {
  if (!std::has_single_bit(static_cast<uint32_t>(mini_batch))) {
    return Infeasible("stage graphs: the batch of {} samples is no power of two; {} would be",
                      mini_batch, std::bit_floor(static_cast<uint32_t>(mini_batch)));
  }
  const ClusterParameters& c = job.cluster;
  PartitionDevice device;
  device.flop_rate = FlopRate::PerSecond(c.peak.per_second() * c.matrix_efficiency);
  device.memory_bandwidth =
      Bandwidth::BytesPerSecond(c.peak_memory.bytes_per_second() * c.memory_efficiency);
  device.network = job.devices <= c.devices_per_node ? c.flat.node : c.flat.nic;
  device.overhead = c.issue;
  device.memory = job.capacity;
  // Weight, gradient, two moments; with a 32-bit copy of the weight where it has fewer bits.
  device.bytes_per_parameter = 16;
  device.devices = static_cast<int32_t>(job.devices);
  device.tensor_network = c.flat.node;
  device.tensor_latency = c.flat.latency;
  const int64_t widest = std::min<int64_t>({job.devices, c.devices_per_node, max_tensor});
  for (int32_t t = 2; t <= widest; t *= 2) device.widths.push_back(t);
  const OperatorTimes times(job.model.workload, c);
  device.times = &times;
  GraphPipeProblem problem = GraphPipeProblemOf(job.model.workload, device, mini_batch);
  FORETRACE_RETURN_IF_ERROR(times.status());
  problem.sources = times.sources();
  problem.all_reduce = AllReduces(c, problem.bandwidth);
  if (job.model.transformer) {
    // Block by block; a block takes what its operators take one after another.
    std::vector<int32_t> group;
    std::map<int32_t, int32_t> first_of_block;
    for (const Operator& op : job.model.workload.operators) {
      const auto i = static_cast<int32_t>(group.size());
      group.push_back(op.block < 0 ? i : first_of_block.try_emplace(op.block, i).first->second);
    }
    problem = MergeGroups(problem, group).problem;
  }
  const std::vector<std::string> names = OperatorNames(job);
  for (size_t i = 0; i < names.size(); ++i) problem.ops[i].name = names[i];
  return problem;
}

SearchRow RowOf(const TrainingJob& job, const GraphPipeProblem& problem, std::string searcher,
                const GraphSearchResult& result) {
  SearchRow row;
  row.searcher = std::move(searcher);
  row.mapping = MappingOf(problem, result);
  const GraphPipePlan& plan = result.plan;
  int32_t widest = 1, divided = 1, smallest = problem.mini_batch;
  size_t repeated = 0;
  RealBytes memory;
  double busy = 0, exchanged = 0;
  const TimedPipeline pipeline = TimedPipelineOf(As(problem, result), plan);
  const auto timing = TimePipeline(pipeline);
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const GraphPipeStage& stage = plan.stages[s];
    widest = std::max(widest, stage.devices);
    divided = std::max(divided, stage.tensor);
    repeated += stage.recomputed.size();
    smallest = std::min(smallest, stage.config.micro_batch);
    memory = std::max(memory, stage.memory);
    if (timing.ok()) busy += timing->stage_busy[s].seconds() * stage.devices;
    const TimedStage& timed = pipeline.stages[s];
    exchanged += (timed.forward_exchange.time + timed.backward_exchange.time).seconds() *
                 problem.mini_batch / timed.micro_batch * stage.devices;
  }
  row.text = fmt::format("{}, depth {}, mb {}, up to {} each", Counted(plan.stages.size(), "stage"),
                         plan.depth, smallest, Counted(widest, "device"));
  if (divided > 1) row.text += fmt::format(", tp up to {}", divided);
  if (repeated > 0) row.text += fmt::format(", {} recomputed", repeated);
  Evaluation& e = row.evaluation;
  e.iteration = SimTime::FromSeconds(plan.iteration.seconds());
  e.memory = WholeBytes(memory.count());
  if (timing.ok()) {
    e.bubble = 1 - busy / (timing->end.seconds() * plan.devices);
    // Sums of gradients after the passes, and of tensor parallelism in the mean over devices.
    e.exposed_communication = 1 - timing->end.seconds() / plan.iteration.seconds() +
                              exchanged / (plan.iteration.seconds() * plan.devices);
  }
  e.model_flop_utilisation =
      ModelFlopUtilisation(Flop(job.model.workload.ModelFlop().count() * problem.mini_batch),
                           e.iteration, job.cluster.peak, plan.devices);
  row.arithmetic = Name(job.model.workload.dtype);
  row.peak = job.cluster.peak;
  row.utilisation_of_model_type = e.model_flop_utilisation;
  row.throughput = problem.mini_batch / plan.iteration.seconds();
  row.estimate = SimTime::FromSeconds(result.estimate.seconds());
  return row;
}

SearchRow RowOf(const TrainingJob& job, std::string searcher, const ParallelMapping& mapping,
                const Evaluation& evaluation) {
  SearchRow row;
  row.arithmetic = mapping.nvfp4   ? "nvfp4"
                   : mapping.mxfp8 ? "mxfp8"
                   : mapping.fp8   ? "fp8"
                                   : Name(job.model.workload.dtype);
  row.peak = PeakOf(mapping, job.cluster);
  row.utilisation_of_model_type = evaluation.model_flop_utilisation;
  if (row.peak != job.cluster.peak) {
    row.utilisation_of_model_type *= row.peak.per_second() / job.cluster.peak.per_second();
  }
  row.searcher = std::move(searcher);
  row.text = ToString(mapping);
  row.mapping = mapping;
  row.evaluation = evaluation;
  row.throughput = mapping.global_batch / evaluation.iteration.seconds();
  return row;
}

absl::StatusOr<EvaluatedGraph> EvaluateStageMapping(const TrainingJob& job,
                                                    const StageMapping& mapping) {
  EvaluatedGraph out;
  FORETRACE_ASSIGN_OR_RETURN(out.problem, GraphProblemOf(job, mapping.mini_batch));
  out.problem.sequential = out.result.sequential = mapping.sequential;
  std::map<std::string, int32_t> index;
  for (size_t i = 0; i < out.problem.ops.size(); ++i) {
    index[out.problem.ops[i].name] = static_cast<int32_t>(i);
  }
  std::vector<GraphPipeStage> stages;
  int64_t devices = 0;
  for (const StagePlacement& placement : mapping.stages) {
    GraphPipeStage stage;
    for (const auto& [names, ops] : {std::pair(&placement.operators, &stage.ops),
                                     std::pair(&placement.recomputed, &stage.recomputed)}) {
      for (const std::string& name : *names) {
        const auto it = index.find(name);
        if (it == index.end()) {
          return Infeasible(
              "C1: the mapping names operator '{}', which workload '{}' lacks; an "
              "operator of it is '{}'",
              name, job.model.workload.name, out.problem.ops.front().name);
        }
        ops->push_back(it->second);
      }
    }
    stage.devices = placement.devices;
    stage.tensor = placement.tensor;
    stage.config = placement.config;
    devices += placement.devices;
    stages.push_back(std::move(stage));
  }
  if (devices > job.devices) {
    return Infeasible("C3: the stages take {} devices of {}", devices, job.devices);
  }
  FORETRACE_ASSIGN_OR_RETURN(out.result.plan, EvaluateStages(out.problem, std::move(stages)));
  return out;
}

absl::StatusOr<SearchRow> EvaluateMapping(const TrainingJob& job, const MappingFile& mapping) {
  if (const auto* stages = std::get_if<StageMapping>(&mapping)) {
    FORETRACE_ASSIGN_OR_RETURN(const EvaluatedGraph graph, EvaluateStageMapping(job, *stages));
    return RowOf(job, graph.problem, "given", graph.result);
  }
  const auto& parallel = std::get<ParallelMapping>(mapping);
  if (!job.model.transformer) {
    return Infeasible(
        "mapping {}: workload '{}' is not a transformer; its mappings are stage graphs",
        ToString(parallel), job.model.workload.name);
  }
  const TransformerConfig model = ModelUnder(job, parallel);
  FORETRACE_RETURN_IF_ERROR(CheckMapping(model, parallel, job.devices));
  if (parallel.fp8 && !job.eight_bit_gemms) {
    return Infeasible(
        "mapping {}: fp8 needs a device with GEMMs of 8 bits; the platform's accelerator states "
        "no fp8 rate",
        ToString(parallel));
  }
  const bool in_parts = parallel.async_tensor || parallel.chunked_tensor;
  if (in_parts && !RunsInParts(parallel, job.cluster.devices_per_node)) {
    return Infeasible(
        "mapping {}: tp-async and tp-chunked write to the memory of other devices of a node, which "
        "has {}; tp{} would do, or neither word",
        ToString(parallel), job.cluster.devices_per_node, job.cluster.devices_per_node);
  }
  const IterationEvaluator evaluator(model, job.cluster, job.capacity);
  FORETRACE_ASSIGN_OR_RETURN(const Evaluation evaluation, evaluator.Evaluate(parallel));
  return RowOf(job, "given", parallel, evaluation);
}

absl::Status FollowMemory(const TrainingJob& job, SearchRow& row) {
  const auto* mapping = std::get_if<ParallelMapping>(&row.mapping);
  if (mapping == nullptr) return absl::OkStatus();
  FORETRACE_ASSIGN_OR_RETURN(row.reserved, ReservedMemoryOf(ModelUnder(job, *mapping), *mapping));
  return absl::OkStatus();
}

absl::Status FollowCpu(const TrainingJob& job, SearchRow& row) {
  const auto* mapping = std::get_if<ParallelMapping>(&row.mapping);
  if (mapping == nullptr || !job.cluster.cpu.any()) return absl::OkStatus();
  FORETRACE_ASSIGN_OR_RETURN(const IterationEstimate estimate,
                             EstimateIteration(ModelUnder(job, *mapping), *mapping, job.cluster));
  row.cpu = estimate.CpuBound() ? estimate.cpu : SimTime();
  return absl::OkStatus();
}

absl::StatusOr<PipelinePicture> PictureOfMapping(const TrainingJob& job,
                                                 const MappingFile& mapping) {
  TimedPipeline pipeline;
  std::vector<std::string> names;
  std::string title = job.model.workload.name;
  if (const auto* stages = std::get_if<StageMapping>(&mapping)) {
    FORETRACE_ASSIGN_OR_RETURN(const EvaluatedGraph graph, EvaluateStageMapping(job, *stages));
    pipeline = TimedPipelineOf(graph.problem, graph.result.plan);
    for (size_t s = 0; s < stages->stages.size(); ++s) {
      names.push_back(fmt::format("stage {} x{}", s, stages->stages[s].devices));
    }
    title += fmt::format(": {}, depth {}", Counted(names.size(), "stage"), graph.result.plan.depth);
  } else {
    const auto& parallel = std::get<ParallelMapping>(mapping);
    const TransformerConfig model = ModelUnder(job, parallel);
    FORETRACE_ASSIGN_OR_RETURN(const PassTimes passes, TimePasses(model, parallel, job.cluster));
    FORETRACE_ASSIGN_OR_RETURN(pipeline, PipelineOf(model, parallel, passes));
    for (int32_t s = 0; s < parallel.pipeline; ++s) names.push_back(fmt::format("stage {}", s));
    title += ": " + ToString(parallel);
  }
  FORETRACE_ASSIGN_OR_RETURN(const PipelineTiming timing, TimePipeline(pipeline));
  return PictureOf(pipeline, timing, std::move(names), std::move(title));
}

absl::StatusOr<GeneratedJob> GenerateJob(const TrainingJob& job, const MappingFile& mapping,
                                         const LoweringOptions& options) {
  SimTime iteration;
  JobPlan plan;
  if (const auto* stages = std::get_if<StageMapping>(&mapping)) {
    FORETRACE_ASSIGN_OR_RETURN(const EvaluatedGraph graph, EvaluateStageMapping(job, *stages));
    iteration = SimTime::FromSeconds(graph.result.plan.iteration.seconds());
    FORETRACE_ASSIGN_OR_RETURN(plan, PlanOfGraph(graph, job.model.workload.dtype));
  } else {
    const auto& parallel = std::get<ParallelMapping>(mapping);
    FORETRACE_ASSIGN_OR_RETURN(const SearchRow row, EvaluateMapping(job, mapping));
    iteration = row.evaluation.iteration;
    const TransformerConfig model = ModelUnder(job, parallel);
    FORETRACE_ASSIGN_OR_RETURN(const PassTimes passes, TimePasses(model, parallel, job.cluster));
    FORETRACE_ASSIGN_OR_RETURN(plan, PlanOf(model, parallel, passes));
  }
  FORETRACE_ASSIGN_OR_RETURN(TraceStore store, Lower(plan, options));
  return GeneratedJob{std::move(store), iteration};
}

}  // namespace foretrace
