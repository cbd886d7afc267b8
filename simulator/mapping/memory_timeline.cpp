#include "simulator/mapping/memory_timeline.h"

#include <utility>

#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

// What is in use besides the states, which do not change.
struct Held {
  int64_t passes = 0;  // of one chunk
  int64_t heads = 0;   // with logits
  bool recomputing = false;
};

class StageWalk {
 public:
  StageWalk(const TransformerConfig& model, const ParallelMapping& m, int32_t stage)
      : m_(m), last_(stage + 1 == m.pipeline), states_(StageMemoryOf(model, m, stage)) {
    activations_ = StageStash(model, m, stage) / m.chunks;
    logits_ = LogitMemoryOf(model, m);
    recomputed_ = states_.recomputed;
    states_.activations = states_.recomputed = states_.logits = Bytes();
  }

  StageMemory Run(const TimedStage& stage, const std::vector<SimTime>& starts) {
    Sample(SimTime(), {});
    for (size_t i = 0; i < stage.passes.size(); ++i) {
      const Pass& pass = stage.passes[i];
      const auto chunk = static_cast<size_t>(pass.chunk);
      const bool head = last_ && pass.chunk + 1 == m_.chunks;
      const bool split = !stage.backward_weight.empty();
      SimTime end = starts[i];
      switch (pass.kind) {
        case PassKind::kForward:
          ++held_.passes;
          held_.heads += head ? 1 : 0;
          Sample(starts[i], pass);
          continue;
        case PassKind::kBackwardWeight:
          end += stage.backward_weight[chunk];
          break;
        default:
          end += stage.backward[chunk];
          held_.recomputing = m_.recompute != Recompute::kNone;
          Sample(starts[i], pass);
          held_.recomputing = false;
          held_.heads -= head ? 1 : 0;
      }
      // Where the weights' gradient is split off, its inputs stay until then.
      if (pass.kind != PassKind::kBackwardInput || !split) --held_.passes;
      Sample(end, pass);
    }
    return std::move(out_);
  }

 private:
  MemoryLedger Use() const {
    MemoryLedger use = states_;
    use.activations = Bytes(static_cast<int64_t>(activations_ * static_cast<double>(held_.passes)));
    if (held_.heads > 0) {
      use.logits = Bytes(
          static_cast<int64_t>(logits_.kept * static_cast<double>(held_.heads) + logits_.passing));
    }
    if (held_.recomputing) use.recomputed = recomputed_;
    return use;
  }
  void Sample(SimTime time, const Pass& pass) {
    const MemoryLedger use = Use();
    out_.samples.push_back({time, use.total()});
    if (use.total() <= out_.peak.total()) return;
    out_.peak = use;
    out_.peak_time = time;
    out_.peak_pass = pass;
    out_.passes_held = held_.passes;
  }

  const ParallelMapping& m_;
  bool last_;
  MemoryLedger states_;
  double activations_ = 0;
  LogitMemory logits_;
  Bytes recomputed_;
  Held held_;
  StageMemory out_;
};

}  // namespace

absl::StatusOr<std::vector<StageMemory>> MemoryOverTime(const TransformerConfig& model,
                                                        const ParallelMapping& mapping,
                                                        const PassTimes& passes) {
  FORETRACE_ASSIGN_OR_RETURN(const TimedPipeline pipeline, PipelineOf(model, mapping, passes));
  FORETRACE_ASSIGN_OR_RETURN(const PipelineTiming timing, TimePipeline(pipeline));
  std::vector<StageMemory> out;
  for (size_t s = 0; s < pipeline.stages.size(); ++s) {
    out.push_back(StageWalk(model, mapping, static_cast<int32_t>(s))
                      .Run(pipeline.stages[s], timing.pass_start[s]));
  }
  return out;
}

}  // namespace foretrace
