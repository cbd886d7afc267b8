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

  // Runs the stage as far as its inputs reach; true if it moved.
  bool Advance(int32_t s) {
    const auto index = static_cast<size_t>(s);
    const TimedStage& stage = p_.stages[index];
    bool moved = false;
    while (position_[index] < stage.passes.size()) {
      const Pass& pass = stage.passes[position_[index]];
      const auto chunk = static_cast<size_t>(pass.chunk);
      Cell& cell = cells_[first_cell_[index] + chunk];
      SimTime start = clock_[index];
      SimTime duration;
      if (pass.kind == PassKind::kBackwardWeight) {
        duration = stage.backward_weight[chunk];
      } else {
        const bool forward = pass.kind == PassKind::kForward;
        const size_t direction = forward ? kForward : kBackward;
        bool ready = true;
        for (const Link& link : forward ? cell.inputs : cell.outputs) {
          const auto& ends = cells_[link.other].ends[direction];
          const auto needed = static_cast<size_t>(link.Needs(pass.microbatch));
          if (ends.size() < needed) {
            ready = false;
            break;
          }
          start = std::max(start, ends[needed - 1] + link.transfer);
        }
        if (!ready) break;
        const bool lone = !lone_[index].empty() && lone_[index][position_[index]];
        const auto& durations = lone ? (forward ? stage.lone_forward : stage.lone_backward)
                                     : (forward ? stage.forward : stage.backward);
        duration = durations[chunk];
        cell.ends[direction].push_back(start + duration);
      }
      if (position_[index] == 0) out_.stage_first_start[index] = start;
      out_.pass_start[index].push_back(start);
      out_.stage_busy[index] += duration;
      clock_[index] = start + duration;
      ++position_[index];
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
