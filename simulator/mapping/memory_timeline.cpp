#include "simulator/mapping/memory_timeline.h"

#include <array>
#include <utility>

#include "simulator/base/real_sizes.h"
#include "simulator/base/status_macros.h"
#include "simulator/mapping/chunk_stash.h"
#include "simulator/mapping/model_layers.h"

namespace foretrace {
namespace {

// What is in use besides the states and what is gathered.
struct Held {
  int64_t passes = 0;  // of one chunk
  double activations = 0;
  int64_t heads = 0;  // with logits
  bool recomputing = false;
  bool embedding = false;  // the gradient of its table is there
};

class StageWalk {
 public:
  StageWalk(const TransformerConfig& model, const ParallelMapping& m, int32_t stage)
      : m_(m), stage_(stage) {
    const ModelLayers layers(model);
    masters_ = HasShardedMasters(model, m);
    for (const StageMoment moment :
         {StageMoment::kLoss, StageMoment::kLayers, StageMoment::kRoot}) {
      MemoryLedger& at = at_[static_cast<size_t>(moment)];
      at = StageMemoryAt(moment, layers, m, stage);
      if (moment == StageMoment::kLayers) recomputed_ = at.recomputed;
      at.activations = at.recomputed = at.logits = Bytes();
    }
    for (int32_t c = 0; c < m.held_chunks(); ++c) {
      activations_.push_back(ChunkStash(layers, m, stage, c));
    }
    logits_ = LogitMemoryOf(model, m);
    logits_.kept *= AsDouble(1 + model.further_tokens);
    embedding_ = EmbeddingGradientOf(layers, m, stage);
  }

  StageMemory Run(const PassList& passes, const std::vector<SimTime>& starts,
                  const std::vector<SimTime>& ends) {
    Sample(SimTime(), {}, StageMoment::kLoss);
    for (size_t i = 0; i < passes.size(); ++i) {
      const Pass& pass = passes[i];
      const double activations = activations_[static_cast<size_t>(pass.chunk)];
      const bool head = HasHead(m_, stage_, pass.chunk);
      if (pass.kind == PassKind::kForward) {
        ++held_.passes;
        held_.activations += activations;
        held_.heads += head ? 1 : 0;
        Sample(starts[i], pass, StageMoment::kLoss);
        continue;
      }
      if (pass.kind != PassKind::kBackwardWeight) {
        if (head) Sample(starts[i], pass, StageMoment::kLoss);
        held_.heads -= head ? 1 : 0;
        held_.recomputing = recomputed_ > Bytes();
        Sample(starts[i], pass, StageMoment::kLayers);
        held_.recomputing = false;
      }
      // Where the weights' gradient is split off, its inputs stay until then.
      if (pass.kind != PassKind::kBackwardInput) {
        --held_.passes;
        held_.activations -= activations;
        held_.embedding = embedding_ > Bytes() && HasEmbedding(m_, stage_, pass.chunk);
      }
      const StageMoment end = masters_ ? StageMoment::kRoot : StageMoment::kLayers;
      if (held_.embedding) Sample(ends[i], pass, end);
      held_.embedding = false;
      Sample(ends[i], pass, end);
    }
    return std::move(out_);
  }

 private:
  MemoryLedger Use(StageMoment moment) const {
    MemoryLedger use = at_[static_cast<size_t>(moment)];
    use.activations = WholeBytes(held_.activations);
    if (held_.heads > 0) {
      const double passing = moment == StageMoment::kLoss ? logits_.passing : 0;
      use.logits = WholeBytes(logits_.kept * static_cast<double>(held_.heads) + passing);
    }
    if (held_.recomputing) use.recomputed = recomputed_;
    if (held_.embedding) use.gathered += embedding_;
    return use;
  }
  void Sample(SimTime time, const Pass& pass, StageMoment moment) {
    const MemoryLedger use = Use(moment);
    out_.samples.push_back({time, use.total()});
    if (use.total() <= out_.peak.total()) return;
    out_.peak = use;
    out_.peak_time = time;
    out_.peak_pass = pass;
    out_.passes_held = held_.passes;
  }

  const ParallelMapping& m_;
  int32_t stage_;
  std::array<MemoryLedger, 3> at_;  // of the states, by moment
  bool masters_ = false;
  std::vector<double> activations_;  // of a pass, by chunk
  LogitMemory logits_;
  Bytes recomputed_, embedding_;
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
                      .Run(pipeline.stages[s].passes, timing.pass_start[s], timing.pass_end[s]));
  }
  return out;
}

}  // namespace foretrace
