#pragma once
// Gradients that collectives reduce, for what-ifs on their buckets; a detail of comm_edits.h.

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/engine/compile.h"
#include "simulator/engine/edit.h"
#include "simulator/network/network_model.h"

namespace foretrace {

// Collectives among `items`, by rendezvous: how many of their members are chosen.
std::map<uint32_t, size_t> ChosenCollectives(const ItemSet& items, const Program& program);

// What the rendezvous of that index moves.
absl::StatusOr<TransferSpec> Transfer(const TraceStore& store, const CompiledJob& job,
                                      uint32_t rendezvous);

absl::Status ChosenInPart(std::string_view communicator);

// All members take `ratio` times as long after the last arrival.
void ScaleMembers(Program& program, const RendezvousProgram& rendezvous, const TimeRatio& ratio);

// Time over bytes, as recorded of a communicator's collectives of one operation.
class RecordedTimes {
 public:
  void Add(Bytes bytes, SimTime time) {
    const auto x = static_cast<double>(bytes.count());
    ++n_, x_ += x, y_ += time.us(), xx_ += x * x, xy_ += x * time.us();
    least_ = std::min(least_, bytes);
    most_ = std::max(most_, bytes);
  }
  bool one_size() const { return least_ == most_; }
  // How much longer `to` takes than `from`: on the line of least squares; in proportion where that
  // would begin below zero.
  double Ratio(Bytes from, Bytes to) const {
    const double slope = (n_ * xy_ - x_ * y_) / (n_ * xx_ - x_ * x_);
    const double begin = (y_ - slope * x_) / n_;
    if (slope < 0) return 1;  // of no matter next to what each takes
    const double fixed = begin > 0 ? begin / slope : 0;
    return (fixed + static_cast<double>(to.count())) / (fixed + static_cast<double>(from.count()));
  }

 private:
  double n_ = 0, x_ = 0, y_ = 0, xx_ = 0, xy_ = 0;
  Bytes least_ = Bytes(INT64_MAX), most_;
};

// An all-reduce or reduce-scatter.
struct Bucket {
  uint32_t communicator = 0;
  int64_t step = 0;
  NodeIndex node;  // of its first member
  uint32_t item = 0;
  uint32_t rendezvous = 0;
  TransferSpec spec;

  bool Belongs(const Bucket& other) const {
    return communicator == other.communicator && step == other.step && spec.op == other.spec.op;
  }
};

class GradientBuckets {
 public:
  // `network` may be null: the recorded times say how long other sizes take.
  GradientBuckets(const TraceStore& store, const CompiledJob& job, NetworkModel* network)
      : store_(store), job_(job), network_(network) {}

  // Those among `items`, by communicator and in order. Errors: not all of a collective's members.
  absl::StatusOr<std::vector<Bucket>> Collect(const ItemSet& items, const Program& program);

  // How much longer a bucket takes if it holds so many bytes. Errors: neither network nor recorded
  // times say so.
  absl::StatusOr<TimeRatio> Ratio(const Bucket& bucket, Bytes held) const;

  std::string_view NameOf(const Bucket& bucket) const {
    return job_.communicators.communicators[bucket.communicator].name;
  }

 private:
  const TraceStore& store_;
  const CompiledJob& job_;
  NetworkModel* network_;
  std::map<std::pair<uint32_t, CollectiveOp>, RecordedTimes> times_;
};

}  // namespace foretrace
