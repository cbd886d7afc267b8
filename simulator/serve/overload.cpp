#include "simulator/serve/overload.h"

#include <algorithm>

namespace foretrace::serve {

OverloadJudge::OverloadJudge(const RequestTrace& trace) {
  if (trace.requests.empty()) return;
  first_ = trace.requests.front().arrival;
  last_ = trace.requests.back().arrival;
  empty_until_ = first_;
}

void OverloadJudge::OnStep(const StepRecord& record) {
  if (record.scheduled > last_) return;
  const auto engine = static_cast<size_t>(record.engine);
  if (waiting_.size() <= engine) waiting_.resize(engine + 1);
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
  return sums[1] / counts[1] > sums[0] / counts[0] ? empty_until_ : SimTime::Max();
}

}  // namespace foretrace::serve
