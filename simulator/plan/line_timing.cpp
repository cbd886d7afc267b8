#include "simulator/plan/line_timing.h"

#include <algorithm>
#include <bit>

#include "simulator/base/check.h"

namespace foretrace {
namespace {

// Finds that a sequence of states repeats but for a shift of all its times (Brent, 1980, "An
// improved Monte Carlo factorization algorithm", section 3: one state is kept, of growing age).
class Recurrence {
 public:
  struct Period {
    int64_t steps = 0;  // 0: none found
    SimTime shift;
  };
  // After every step, with the times that the next ones follow from.
  Period Step(const std::vector<SimTime>& state) {
    ++age_;
    if (!kept_.empty() && IsShifted(state)) return {age_, state.front() - kept_.front()};
    if (age_ >= limit_) {
      kept_ = state;
      limit_ *= 2;
      age_ = 0;
    }
    return {};
  }

 private:
  bool IsShifted(const std::vector<SimTime>& state) const {
    const SimTime shift = state.front() - kept_.front();
    for (size_t i = 1; i < state.size(); ++i) {
      if (state[i] - kept_[i] != shift) return false;
    }
    return true;
  }

  std::vector<SimTime> kept_;
  int64_t age_ = 0, limit_ = 1;
};

// KFKBSchedule at every stage: what is in flight goes forward, then rounds of k backward and k
// forward passes. In a round all backward passes of later stages come first, then the forward ones
// from the first stage on.
class GroupedLine {
 public:
  explicit GroupedLine(const LinePipeline& line)
      : p_(line), n_(line.microbatches), stages_(static_cast<size_t>(line.stages)) {
    FORETRACE_CHECK(line.chunks == 1 && line.in_flight.size() == stages_);
    FORETRACE_CHECK(line.k == 1 || line.lone_forward.empty());
    int64_t ahead = 0;
    for (size_t s = 1; s < stages_; ++s) {
      FORETRACE_CHECK(Flying(s) <= Flying(s - 1));
      ahead = std::max(ahead, Flying(s - 1) - Flying(s));
    }
    ring_ = std::bit_ceil(static_cast<size_t>(ahead + line.k));
    ends_.resize(stages_ * ring_);
    returned_.resize(static_cast<size_t>(line.k));
    clock_.resize(stages_);
    out_.last_backward.resize(stages_);
  }

  LineTiming Run() {
    for (int64_t i = 0; i < Flying(0); ++i) {
      for (size_t s = 0; s < stages_ && i < Flying(s); ++s) Forward(s, i);
    }
    Recurrence recurrence;
    bool looks = true;
    for (int64_t first = 0; first < n_; first += p_.k) {
      Backward(first);
      for (size_t s = 0; s < stages_; ++s) {
        const int64_t from = Flying(s) + first, to = std::min(from + p_.k, n_);
        for (int64_t i = from; i < to; ++i) Forward(s, i);
      }
      // Whether every stage has as much to do in the next round as in this one.
      const int64_t left = (n_ - Flying(0) - first) / p_.k - 1;
      if (!looks || left < 1) continue;
      if (const auto period = recurrence.Step(State(first)); period.steps > 0) {
        Skip(left / period.steps * period.steps, left / period.steps, period.shift);
        looks = false;
      }
    }
    out_.stage_end = clock_;
    out_.end = *std::max_element(clock_.begin(), clock_.end());
    return std::move(out_);
  }

 private:
  int64_t Flying(size_t stage) const { return std::min(n_all_, p_.in_flight[stage]); }
  SimTime& End(size_t stage, int64_t i) {
    return ends_[stage * ring_ + (static_cast<size_t>(i) & (ring_ - 1))];
  }

  void Forward(size_t s, int64_t i) {
    SimTime start = clock_[s];
    if (s > 0) start = std::max(start, End(s - 1, i) + p_.transfer);
    const bool lone = has_lone_ && i < Lone(s);
    clock_[s] = End(s, i) = start + (lone ? p_.lone_forward : p_.forward)[s];
  }

  // LonePasses of a stage, each way.
  int64_t Lone(size_t s) const {
    return Flying(s) == n_all_ ? n_all_ : std::max<int64_t>(Flying(s), 2) - 1;
  }

  void Backward(int64_t first) {
    const auto count = static_cast<size_t>(std::min<int64_t>(p_.k, n_ - first));
    for (size_t s = stages_; s-- > 0;) {
      for (size_t i = 0; i < count; ++i) {
        SimTime start = clock_[s];
        if (s + 1 < stages_) start = std::max(start, returned_[i] + p_.transfer);
        const bool lone = has_lone_ && first >= n_ - Lone(s);
        clock_[s] = returned_[i] = start + (lone ? p_.lone_backward : p_.backward)[s];
        out_.last_backward[s] = start;
      }
    }
  }

  // When stages are free, and the ends of forward passes that their successors have not taken.
  const std::vector<SimTime>& State(int64_t first) {
    state_ = clock_;
    for (size_t s = 1; s < stages_; ++s) {
      for (int64_t i = Flying(s); i < Flying(s - 1); ++i) {
        state_.push_back(End(s - 1, i + first + p_.k));
      }
    }
    return state_;
  }

  // Leaves out whole rounds, after which the times are the same but for the shift.
  void Skip(int64_t rounds, int64_t periods, SimTime of_period) {
    const SimTime shift = SimTime::FromPs(of_period.ps() * periods);
    for (SimTime& t : clock_) t += shift;
    for (SimTime& t : ends_) t += shift;
    n_ -= rounds * p_.k;
  }

  const LinePipeline& p_;
  const int64_t n_all_ = p_.microbatches;
  const bool has_lone_ = !p_.lone_forward.empty();
  int64_t n_;  // without those that were left out
  size_t stages_, ring_ = 1;
  std::vector<SimTime> ends_;      // of forward passes, the last ones by stage
  std::vector<SimTime> returned_;  // of this round's backward passes, of the stage after
  std::vector<SimTime> clock_, state_;
  LineTiming out_;
};

// InterleavedSchedule. Forward passes of all stages have one order, groups of as many micro-batches
// as there are stages going chunk by chunk, and so have backward ones. In a step each stage takes
// one forward and one backward pass; a stage takes a forward pass one step after the stage before
// it took the same one, the first stage one step after the last stage took the chunk before, and
// likewise backward. So all that a step waits for is the last passes of the step before.
class InterleavedLine {
 public:
  explicit InterleavedLine(const LinePipeline& line)
      : p_(line),
        stages_(line.stages),
        group_(int64_t{line.stages} * line.chunks),
        total_(int64_t{line.microbatches} * line.chunks) {
    FORETRACE_CHECK(stages_ > 1 && line.microbatches % stages_ == 0);
    const auto n = static_cast<size_t>(stages_);
    clock_.resize(n);
    forward_.resize(n);
    backward_.resize(n);
    out_.last_backward.resize(static_cast<size_t>(group_));
  }

  LineTiming Run() {
    const int64_t last = stages_ - 1;
    // Of the first stage's forward and the last stage's backward pass.
    int64_t forward = 0, backward = stages_ - group_ - last;
    Recurrence recurrence;
    bool looks = true;
    for (; backward - last < total_; ++forward, ++backward) {
      Forward(forward);
      Backward(backward);
      if (!looks || backward < last || (forward + 1) % group_ != 0) continue;
      const int64_t left = (total_ - 1 - forward) / group_;
      if (left < 1) continue;
      if (const auto period = recurrence.Step(State()); period.steps > 0) {
        Skip(left / period.steps * period.steps, left / period.steps, period.shift);
        looks = false;
      }
    }
    out_.stage_end = clock_;
    out_.end = *std::max_element(clock_.begin(), clock_.end());
    return std::move(out_);
  }

 private:
  // One of `group_` passes in a row by its place: which chunk, and the place within it.
  struct Place {
    int64_t chunk, within;
  };
  Place PlaceOf(int64_t index) const {
    const int64_t place = index % group_;
    return {place / stages_, place % stages_};
  }
  int64_t Before(int64_t chunk) const { return chunk > 0 ? chunk - 1 : p_.chunks - 1; }

  // LonePasses of a stage, each way: its warm-up, or all where no forward pass follows the first
  // backward one.
  int64_t Lone(int64_t stage) const {
    const int64_t warmup = 2 * (stages_ - 1 - stage) + group_ - stages_;
    return warmup + 1 < total_ ? warmup : total_;
  }
  // Of pass `own` of a stage, counted as it takes them.
  SimTime ForwardOf(int64_t chunk, int64_t stage, int64_t own) const {
    const bool lone = has_lone_ && own < Lone(stage);
    return (lone ? p_.lone_forward : p_.forward)[static_cast<size_t>(chunk * stages_ + stage)];
  }
  SimTime BackwardOf(int64_t chunk, int64_t stage, int64_t own) const {
    const bool lone = has_lone_ && own >= total_ - Lone(stage);
    return (lone ? p_.lone_backward : p_.backward)[static_cast<size_t>(chunk * stages_ + stage)];
  }

  // Pass `index` of the first stage, the one before it of the next stage, and so on.
  void Forward(int64_t index) {
    const auto [chunk, within] = PlaceOf(index);
    const int64_t first = std::max<int64_t>(0, index - total_ + 1);
    const SimTime of_last = forward_.back();
    const auto run = [&](int64_t from, int64_t to, int64_t of_chunk) {
      const SimTime* duration = p_.forward.data() + of_chunk * stages_;
      for (int64_t s = to; s >= from; --s) {
        const auto at = static_cast<size_t>(s);
        clock_[at] = forward_[at] = std::max(clock_[at], forward_[at - 1] + p_.transfer) +
                                    (has_lone_ ? ForwardOf(of_chunk, s, index - s) : duration[s]);
      }
    };
    run(std::max({int64_t{1}, first, within + 1}), std::min(stages_ - 1, index), Before(chunk));
    run(std::max<int64_t>(1, first), std::min({stages_ - 1, index, within}), chunk);
    if (first > 0) return;
    SimTime start = clock_[0];
    if (chunk > 0) start = std::max(start, of_last + p_.transfer);
    clock_[0] = forward_[0] = start + ForwardOf(chunk, 0, index);
  }

  // The same from the last stage on, of the chunks in reverse.
  void Backward(int64_t index) {
    if (index < 0) return;
    const auto [order, within] = PlaceOf(index);
    const int64_t last = stages_ - 1, first = std::max<int64_t>(0, index - total_ + 1);
    const SimTime of_first = backward_.front();
    // Stages counted from the last one.
    const auto run = [&](int64_t from, int64_t to, int64_t in_order) {
      const int64_t of_chunk = p_.chunks - 1 - in_order;
      const SimTime* duration = p_.backward.data() + of_chunk * stages_;
      for (int64_t s = last - to; s <= last - from; ++s) {
        const auto at = static_cast<size_t>(s);
        clock_[at] = backward_[at] =
            std::max(clock_[at], backward_[at + 1] + p_.transfer) +
            (has_lone_ ? BackwardOf(of_chunk, s, index - last + s) : duration[s]);
      }
    };
    run(std::max({int64_t{1}, first, within + 1}), std::min(last, index), Before(order));
    run(std::max<int64_t>(1, first), std::min({last, index, within}), order);
    if (first == 0) {
      SimTime start = clock_.back();
      if (order > 0) start = std::max(start, of_first + p_.transfer);
      clock_.back() = backward_.back() = start + BackwardOf(p_.chunks - 1 - order, last, index);
    }
    if (index >= total_ - group_) KeepLast(index);
  }

  // Starts of the last micro-batch's passes among those of the step.
  void KeepLast(int64_t index) {
    for (int64_t back = 0; back < stages_; ++back) {
      const int64_t own = index - back;
      if (own < total_ - group_ || own >= total_ || own % stages_ != stages_ - 1) continue;
      const int64_t stage = stages_ - 1 - back;
      const int64_t chunk = p_.chunks - 1 - PlaceOf(own).chunk;
      out_.last_backward[static_cast<size_t>(chunk * stages_ + stage)] =
          backward_[static_cast<size_t>(stage)] - BackwardOf(chunk, stage, own);
    }
  }

  const std::vector<SimTime>& State() {
    state_ = forward_;
    state_.insert(state_.end(), backward_.begin(), backward_.end());
    return state_;
  }

  void Skip(int64_t groups, int64_t periods, SimTime of_period) {
    const SimTime shift = SimTime::FromPs(of_period.ps() * periods);
    for (std::vector<SimTime>* times : {&clock_, &forward_, &backward_}) {
      for (SimTime& t : *times) t += shift;
    }
    total_ -= groups * group_;
  }

  const LinePipeline& p_;
  int64_t stages_, group_;
  int64_t total_;  // forward passes of a stage, without those that were left out
  bool has_lone_ = !p_.lone_forward.empty();
  std::vector<SimTime> clock_, forward_,
      backward_;  // when a stage is free, and ended its last ones
  std::vector<SimTime> state_;
  LineTiming out_;
};

}  // namespace

LineTiming TimeLine(const LinePipeline& line) {
  const size_t all = static_cast<size_t>(line.stages) * static_cast<size_t>(line.chunks);
  FORETRACE_CHECK(line.microbatches > 0 && line.forward.size() == all &&
                  line.backward.size() == all);
  return line.chunks > 1 ? InterleavedLine(line).Run() : GroupedLine(line).Run();
}

}  // namespace foretrace
