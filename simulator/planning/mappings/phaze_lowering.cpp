#include "simulator/planning/mappings/phaze_lowering.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/engine/replay.h"
#include "simulator/mapping/schedule.h"
#include "simulator/mapping/trace_emitter.h"

namespace foretrace {
namespace {

class StageWriter {
 public:
  StageWriter(const PhazeProblem& problem, const PhazeLayers& model, const PhazePlan& plan,
              int32_t stage)
      : problem_(problem),
        model_(model),
        plan_(plan),
        stage_(stage),
        stages_(static_cast<int32_t>(plan.stages.size())),
        out_(Info(), {}, DType::kFloat16) {
    for (const int32_t layer : plan.stages[static_cast<size_t>(stage)].layers) {
      const PhazeLayer& l = model.layers[static_cast<size_t>(layer)];
      forward_ += SimTime::FromSeconds(l.forward_s);
      backward_ += SimTime::FromSeconds(l.backward_s);
      parameters_ += l.parameter_bytes;
    }
    if (plan.recompute && stage + 1 < stages_) backward_ += forward_;
    if (stages_ > 1) {
      std::vector<int32_t> ranks(static_cast<size_t>(stages_));
      std::iota(ranks.begin(), ranks.end(), 0);
      group_ = out_.AddGroup("pipeline", ranks);
    }
  }

  absl::StatusOr<RankTraceBuilder::Result> Write() {
    const int32_t d = plan_.data_parallel;
    const int32_t micro_batches = (problem_.MicroBatches(plan_.option()) + d - 1) / d;
    for (const Pass& pass :
         KFKBSchedule(micro_batches, 1, std::min(stages_ - stage_, micro_batches))) {
      WritePass(pass.kind == PassKind::kForward, pass.microbatch, micro_batches);
    }
    const double reduction = 4.0 * (d - 1) * parameters_ / (d * problem_.bandwidth);
    out_.Compute("gradients of all replicas", SimTime::FromSeconds(reduction));
    return out_.Build();
  }

 private:
  RankInfo Info() const {
    RankInfo info;
    info.rank = stage_;
    info.world_size = stages_;
    info.source = "generated: a placement";
    info.producer = "foretrace architect";
    info.has_times = false;
    info.synthetic = true;
    return info;
  }

  void WritePass(bool forward, int32_t micro_batch, int32_t micro_batches) {
    const int32_t from = forward ? stage_ - 1 : stage_ + 1, to = forward ? stage_ + 1 : stage_ - 1;
    const std::string name =
        fmt::format("{} micro-batch {}", forward ? "forward" : "backward", micro_batch);
    NodeIndex received;
    if (from >= 0 && from < stages_) {
      received = Transfer(NodeKind::kRecv, from, forward, micro_batch, micro_batches);
    }
    const NodeIndex pass = out_.Compute(name, forward ? forward_ : backward_, received);
    if (to >= 0 && to < stages_) {
      Transfer(NodeKind::kSend, to, forward, micro_batch, micro_batches, pass);
    }
  }

  NodeIndex Transfer(NodeKind kind, int32_t peer, bool forward, int32_t micro_batch,
                     int32_t micro_batches, NodeIndex after = NodeIndex()) {
    const int32_t edge = std::min(stage_, peer);
    const double bytes = Crossing(edge);
    TraceEmitter::Message m;
    m.kind = kind;
    m.op = CollectiveOp::kUnknown;
    m.name = fmt::format("{} {} {}", kind == NodeKind::kSend ? "send" : "receive",
                         forward ? "activations" : "gradients", micro_batch);
    m.group = group_;
    m.group_size = stages_;
    m.bytes = Bytes(static_cast<int64_t>(bytes));
    m.duration = SimTime::FromSeconds(bytes / problem_.bandwidth);
    m.peer = peer;
    m.tag = (edge * 2 + (forward ? 0 : 1)) * micro_batches + micro_batch;
    return out_.Communicate(m, after);
  }

  // What leaves the stages up to `edge` for those behind.
  double Crossing(int32_t edge) const {
    std::vector<bool> before(static_cast<size_t>(problem_.layers));
    for (int32_t s = 0; s <= edge; ++s) {
      for (const int32_t layer : plan_.stages[static_cast<size_t>(s)].layers) {
        before[static_cast<size_t>(layer)] = true;
      }
    }
    double bytes = 0;
    for (const PhazeEdge& e : model_.edges) {
      if (before[static_cast<size_t>(e.from)] && !before[static_cast<size_t>(e.to)]) {
        bytes += e.bytes;
      }
    }
    return bytes;
  }

  const PhazeProblem& problem_;
  const PhazeLayers& model_;
  const PhazePlan& plan_;
  int32_t stage_, stages_;
  TraceEmitter out_;
  std::string group_;
  SimTime forward_, backward_;
  double parameters_ = 0;
};

}  // namespace

absl::StatusOr<TraceStore> LowerPlacement(const PhazeProblem& problem, const PhazePlan& plan) {
  const double passes = 2.0 * problem.MicroBatches(plan.option()) / plan.data_parallel;
  if (passes * 3 * static_cast<double>(plan.stages.size()) > kMaxGeneratedNodes) {
    return Infeasible("traces of {:.3g} passes in each of {} stages are too many to execute",
                      passes, plan.stages.size());
  }
  FORETRACE_ASSIGN_OR_RETURN(const PhazeLayers model, problem.layers_of(plan.option()));
  std::vector<std::pair<RankTrace, std::unique_ptr<StringPool>>> ranks;
  for (int32_t stage = 0; stage < static_cast<int32_t>(plan.stages.size()); ++stage) {
    FORETRACE_ASSIGN_OR_RETURN(RankTraceBuilder::Result trace,
                               StageWriter(problem, model, plan, stage).Write());
    ranks.emplace_back(std::move(trace.trace), std::move(trace.strings));
  }
  return TraceStore::Assemble(std::move(ranks), {});
}

absl::StatusOr<SimTime> SimulatePlacement(const PhazeProblem& problem, const PhazePlan& plan) {
  FORETRACE_ASSIGN_OR_RETURN(const TraceStore store, LowerPlacement(problem, plan));
  FORETRACE_ASSIGN_OR_RETURN(const Prediction prediction, Predict(store, {}, nullptr));
  return prediction.schedule.makespan;
}

}  // namespace foretrace
