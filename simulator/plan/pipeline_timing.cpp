#include "simulator/plan/pipeline_timing.h"

#include <algorithm>
#include <array>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

constexpr size_t kForward = 0, kBackward = 1;

struct Link {
  int32_t stage = 0;
  size_t other = 0;  // cell of the other end
  SimTime transfer;
  // Passes of the other end that one pass here needs: the last of them, from n of here.
  int32_t their_size = 1, our_size = 1;
  // One past the other end's last micro-batch that micro-batch n here depends on.
  int32_t Needs(int32_t n) const {
    // The usual case; a division for every pass would be most of the time.
    if (our_size == their_size) return n + 1;
    return static_cast<int32_t>((static_cast<int64_t>(n + 1) * our_size + their_size - 1) /
                                their_size);
  }
};

// One (stage, chunk): end times of its passes so far, by direction.
struct Cell {
  std::array<std::vector<SimTime>, 2> ends;
  std::vector<Link> inputs;   // forward passes wait for these
  std::vector<Link> outputs;  // backward passes wait for these
};

class Timer {
 public:
  explicit Timer(const TimedPipeline& pipeline) : p_(pipeline) {}

  absl::StatusOr<PipelineTiming> Run() {
    FORETRACE_RETURN_IF_ERROR(Prepare());
    const size_t n = p_.stages.size();
    position_.assign(n, 0);
    clock_.assign(n, SimTime());
    std::vector<int32_t> work(n);
    for (size_t s = 0; s < n; ++s) work[s] = static_cast<int32_t>(s);
    std::vector<char> queued(n, 1);
    while (!work.empty()) {
      const int32_t s = work.back();
      work.pop_back();
      queued[static_cast<size_t>(s)] = 0;
      if (!Advance(s)) continue;
      for (const int32_t neighbour : neighbours_[static_cast<size_t>(s)]) {
        if (!queued[static_cast<size_t>(neighbour)]) {
          queued[static_cast<size_t>(neighbour)] = 1;
          work.push_back(neighbour);
        }
      }
    }
    for (size_t s = 0; s < n; ++s) {
      if (position_[s] < p_.stages[s].passes.size()) return Deadlock(s);
    }
    out_.stage_end = clock_;
    for (const SimTime t : clock_) out_.end = std::max(out_.end, t);
    return std::move(out_);
  }

 private:
  absl::Status Prepare() {
    const size_t n = p_.stages.size();
    out_.pass_start.resize(n);
    out_.pass_end.resize(n);
    out_.stage_busy.resize(n);
    out_.stage_first_start.resize(n);
    neighbours_.resize(n);
    for (size_t s = 0; s < n; ++s) {
      const TimedStage& stage = p_.stages[s];
      if (stage.micro_batch < 1 || p_.mini_batch % stage.micro_batch != 0) {
        return InvalidInput("stage {}: micro-batch size {} does not divide the mini-batch of {}", s,
                            stage.micro_batch, p_.mini_batch);
      }
      if (stage.forward.empty() || stage.backward.size() != stage.forward.size()) {
        return InvalidInput("stage {}: durations are missing", s);
      }
      FORETRACE_RETURN_IF_ERROR(CheckPassOrder(stage.passes, p_.mini_batch / stage.micro_batch,
                                               static_cast<int32_t>(stage.forward.size())));
      for (const Pass& pass : stage.passes) {
        if (pass.kind == PassKind::kBackwardWeight &&
            stage.backward_weight.size() != stage.forward.size()) {
          return InvalidInput("stage {}: durations of weight gradients are missing", s);
        }
      }
      lone_.push_back(stage.lone_forward.empty() ? std::vector<bool>() : LonePasses(stage.passes));
      first_cell_.push_back(cells_.size());
      cells_.resize(cells_.size() + stage.forward.size());
      out_.pass_start[s].reserve(stage.passes.size());
      out_.pass_end[s].reserve(stage.passes.size());
      for (size_t c = first_cell_[s]; c < cells_.size(); ++c) {
        for (auto& ends : cells_[c].ends) {
          ends.reserve(static_cast<size_t>(p_.mini_batch / stage.micro_batch));
        }
      }
    }
    for (const TimedEdge& e : p_.edges) FORETRACE_RETURN_IF_ERROR(AddEdge(e));
    return absl::OkStatus();
  }

  absl::Status AddEdge(const TimedEdge& e) {
    const auto in_range = [&](int32_t stage, int32_t chunk) {
      return stage >= 0 && static_cast<size_t>(stage) < p_.stages.size() && chunk >= 0 &&
             static_cast<size_t>(chunk) < p_.stages[static_cast<size_t>(stage)].forward.size();
    };
    if (!in_range(e.from, e.from_chunk) || !in_range(e.to, e.to_chunk)) {
      return InvalidInput("edge {} -> {} is not between two stages", e.from, e.to);
    }
    const int32_t from_size = p_.stages[static_cast<size_t>(e.from)].micro_batch;
    const int32_t to_size = p_.stages[static_cast<size_t>(e.to)].micro_batch;
    if (from_size % to_size != 0 && to_size % from_size != 0) {
      return InvalidInput("C5: micro-batch sizes {} and {} of stages {} and {} are no multiples",
                          from_size, to_size, e.from, e.to);
    }
    const size_t from =
        first_cell_[static_cast<size_t>(e.from)] + static_cast<size_t>(e.from_chunk);
    const size_t to = first_cell_[static_cast<size_t>(e.to)] + static_cast<size_t>(e.to_chunk);
    cells_[to].inputs.push_back({e.from, from, e.forward_transfer, from_size, to_size});
    cells_[from].outputs.push_back({e.to, to, e.backward_transfer, to_size, from_size});
    if (e.from != e.to) {
      neighbours_[static_cast<size_t>(e.from)].push_back(e.to);
      neighbours_[static_cast<size_t>(e.to)].push_back(e.from);
    }
    return absl::OkStatus();
  }

  size_t CellOf(size_t stage, const Pass& pass) const {
    return first_cell_[stage] + static_cast<size_t>(pass.chunk);
  }

  // Whether what the pass needs of neighbours has been sent; when it is there, if after `start`.
  bool IsReady(size_t stage, const Pass& pass, SimTime& start) const {
    if (pass.kind == PassKind::kBackwardWeight) return true;
    const bool forward = pass.kind == PassKind::kForward;
    const Cell& cell = cells_[CellOf(stage, pass)];
    for (const Link& link : forward ? cell.inputs : cell.outputs) {
      const auto& ends = cells_[link.other].ends[forward ? kForward : kBackward];
      const auto needed = static_cast<size_t>(link.Needs(pass.microbatch));
      if (ends.size() < needed) return false;
      start = std::max(start, ends[needed - 1] + link.transfer);
    }
    return true;
  }

  SimTime DurationOf(size_t index, size_t position) const {
    const TimedStage& stage = p_.stages[index];
    const Pass& pass = stage.passes[position];
    const auto chunk = static_cast<size_t>(pass.chunk);
    const bool lone = !lone_[index].empty() && lone_[index][position];
    switch (pass.kind) {
      case PassKind::kBackwardWeight:
        return stage.backward_weight[chunk];
      case PassKind::kForward:
        return (lone ? stage.lone_forward : stage.forward)[chunk];
      case PassKind::kBackwardInput:
        if (!stage.backward_input.empty()) return stage.backward_input[chunk];
        [[fallthrough]];
      default:
        return (lone ? stage.lone_backward : stage.backward)[chunk];
    }
  }

  // Runs the stage as far as its inputs reach; true if it moved.
  bool Advance(int32_t s) {
    const auto index = static_cast<size_t>(s);
    const PassList& passes = p_.stages[index].passes;
    bool moved = false;
    while (position_[index] < passes.size()) {
      const size_t first = position_[index], count = passes[first].paired ? 2 : 1;
      SimTime start = clock_[index];
      bool ready = true;
      for (size_t i = first; i < first + count; ++i) {
        ready = ready && IsReady(index, passes[i], start);
      }
      if (!ready) break;
      if (first == 0) out_.stage_first_start[index] = start;
      SimTime end = start;
      for (size_t i = first; i < first + count; ++i) {
        out_.pass_start[index].push_back(end);
        end += DurationOf(index, i);
        out_.pass_end[index].push_back(end);
      }
      for (size_t i = first; i < first + count; ++i) {
        if (passes[i].kind == PassKind::kBackwardWeight) continue;
        const bool forward = passes[i].kind == PassKind::kForward;
        cells_[CellOf(index, passes[i])].ends[forward ? kForward : kBackward].push_back(end);
      }
      out_.stage_busy[index] += end - start;
      clock_[index] = end;
      position_[index] += count;
      moved = true;
    }
    return moved;
  }

  absl::Status Deadlock(size_t s) const {
    const Pass& pass = p_.stages[s].passes[position_[s]];
    return InvalidInput(
        "C5: the schedules wait for each other: stage {} stands at the {} pass of micro-batch {}, "
        "which needs a pass of a neighbour that comes later there",
        s, pass.kind == PassKind::kForward ? "forward" : "backward", pass.microbatch);
  }

  const TimedPipeline& p_;
  std::vector<Cell> cells_;
  std::vector<size_t> first_cell_;
  std::vector<std::vector<int32_t>> neighbours_;
  std::vector<size_t> position_;
  std::vector<std::vector<bool>> lone_;  // by stage; empty: its passes are alike
  std::vector<SimTime> clock_;
  PipelineTiming out_;
};

}  // namespace

absl::StatusOr<PipelineTiming> TimePipeline(const TimedPipeline& pipeline) {
  return Timer(pipeline).Run();
}

}  // namespace foretrace
