#include "simulator/serve/overload.h"

#include <algorithm>

namespace foretrace::serve {

OverloadJudge::OverloadJudge(const RequestTrace& trace) {
  if (trace.requests.empty()) return;
  first_ = trace.requests.front().arrival;
  last_ = trace.requests.back().arrival;
  empty_until_ = seen_ = first_;
}

double OverloadJudge::QueuedShare() const {
  const SimTime queued = queue_ > 0 ? queued_ + (last_ - seen_) : queued_;
  return last_ > first_ ? queued.seconds() / (last_ - first_).seconds() : 0;
}

void OverloadJudge::OnStep(const StepRecord& record) {
  if (record.scheduled > last_) return;
  const auto engine = static_cast<size_t>(record.engine);
  if (waiting_.size() <= engine) waiting_.resize(engine + 1);
  const SimTime now = std::max(seen_, record.scheduled);
  if (queue_ > 0) queued_ += now - seen_;
  seen_ = now;
  queue_ += record.waiting - waiting_[engine];
  waiting_[engine] = record.waiting;
  if (queue_ == 0) {
    empty_until_ = record.scheduled;
    samples_.clear();
    return;
  }
  samples_.push_back({record.scheduled, static_cast<int32_t>(queue_)});
}

SimTime OverloadJudge::From() const {
  const SimTime span = last_ - empty_until_;
  if (samples_.size() < 3 || span.ps() * 10 <= (last_ - first_).ps()) return SimTime::Max();
  std::array<double, 2> sums = {}, counts = {};
  const SimTime third = SimTime::FromPs(span.ps() / 3);
  for (const Sample& s : samples_) {
    if (s.at < empty_until_ + third) continue;
    const size_t part = s.at < empty_until_ + third + third ? 0 : 1;
    sums[part] += s.waiting;
    counts[part] += 1;
  }
  if (counts[0] == 0 || counts[1] == 0) return SimTime::Max();
  // Means lie a third apart, the last half a third before the end: empty after 3 + 1/2 thirds more.
  const double before = sums[0] / counts[0], last = sums[1] / counts[1];
  return last > 3.5 * (before - last) ? empty_until_ : SimTime::Max();
}

}  // namespace foretrace::serve
