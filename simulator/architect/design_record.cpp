#include "simulator/architect/design_record.h"

#include <cstdlib>

#include <fmt/format.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace foretrace {
namespace {

// Runs of neighbouring layers as "first-last".
std::string LayersText(const std::vector<int32_t>& layers) {
  std::string text;
  for (size_t i = 0; i < layers.size();) {
    size_t end = i + 1;
    while (end < layers.size() && layers[end] == layers[end - 1] + 1) ++end;
    text += fmt::format("{}{}-{}", i > 0 ? "," : "", layers[i], layers[end - 1]);
    i = end;
  }
  return text;
}

class Words {
 public:
  explicit Words(const std::string& line) : words_(absl::StrSplit(line, ' ', absl::SkipEmpty())) {}

  bool ok() const { return ok_; }
  bool done() const { return ok_ && at_ == words_.size(); }
  size_t left() const { return words_.size() - at_; }
  double Real() {
    const std::string word = Next();
    char* end = nullptr;
    const double value = std::strtod(word.c_str(), &end);
    ok_ = ok_ && end == word.c_str() + word.size();
    return value;
  }
  int64_t Whole() {
    int64_t value = 0;
    ok_ = absl::SimpleAtoi(Next(), &value) && ok_;
    return value;
  }
  // As many as are left at most, each of one word or more.
  size_t Count() {
    const int64_t count = Whole();
    ok_ = ok_ && count >= 0 && static_cast<size_t>(count) <= left();
    return ok_ ? static_cast<size_t>(count) : 0;
  }
  std::vector<int32_t> Layers() {
    std::vector<int32_t> layers;
    for (const absl::string_view run : absl::StrSplit(Next(), ',', absl::SkipEmpty())) {
      const std::vector<std::string> ends = absl::StrSplit(run, '-');
      int32_t first = 0, last = 0;
      if (ends.size() != 2 || !absl::SimpleAtoi(ends[0], &first) ||
          !absl::SimpleAtoi(ends[1], &last) || first < 0 || last < first || last > 1 << 20) {
        ok_ = false;
        return {};
      }
      for (int32_t layer = first; layer <= last; ++layer) layers.push_back(layer);
    }
    return layers;
  }

 private:
  std::string Next() {
    if (at_ < words_.size()) return words_[at_++];
    ok_ = false;
    return {};
  }
  std::vector<std::string> words_;
  size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace

std::string Encode(const DesignRecord& record) {
  std::string line =
      fmt::format("{:a} {} {} {:a} {}", record.score, record.statistics.layers,
                  record.statistics.proven, record.statistics.worst_gap, record.plans.size());
  for (const ModelPlan& plan : record.plans) {
    line += fmt::format(" {:a} {} {} {:a} {:a} {} {} {}", plan.throughput,
                        plan.placement.micro_batch, plan.placement.recompute ? 1 : 0, plan.mfu,
                        plan.placement.batch.seconds(), plan.placement.data_parallel,
                        plan.placement.width, plan.placement.stages.size());
    for (const PhazeStage& stage : plan.placement.stages) {
      line += fmt::format(" {} {} {:a} {:a}", LayersText(stage.layers), stage.accelerators,
                          stage.load.seconds(), stage.memory.count());
    }
  }
  return line;
}

std::optional<DesignRecord> DecodeRecord(const std::string& line) {
  Words words(line);
  DesignRecord record;
  record.score = words.Real();
  record.statistics.layers = words.Whole();
  record.statistics.proven = words.Whole();
  record.statistics.worst_gap = words.Real();
  const size_t plans = words.Count();
  for (size_t p = 0; p < plans && words.ok(); ++p) {
    ModelPlan plan;
    plan.throughput = words.Real();
    plan.placement.micro_batch = static_cast<int32_t>(words.Whole());
    plan.placement.recompute = words.Whole() != 0;
    plan.mfu = words.Real();
    plan.placement.batch = RealSeconds(words.Real());
    plan.placement.data_parallel = static_cast<int32_t>(words.Whole());
    plan.placement.width = static_cast<int32_t>(words.Whole());
    const size_t stages = words.Count();
    for (size_t s = 0; s < stages && words.ok(); ++s) {
      PhazeStage stage;
      stage.layers = words.Layers();
      stage.accelerators = static_cast<int32_t>(words.Whole());
      stage.load = RealSeconds(words.Real());
      stage.memory = RealBytes(words.Real());
      plan.placement.stages.push_back(std::move(stage));
    }
    record.plans.push_back(std::move(plan));
  }
  if (!words.done()) return std::nullopt;
  return record;
}

std::string EncodeNumbers(const std::vector<double>& numbers) {
  std::string line = fmt::format("{}", numbers.size());
  for (const double number : numbers) line += fmt::format(" {:a}", number);
  return line;
}

std::optional<std::vector<double>> DecodeNumbers(const std::string& line) {
  Words words(line);
  std::vector<double> numbers;
  const size_t count = words.Count();
  for (size_t i = 0; i < count && words.ok(); ++i) numbers.push_back(words.Real());
  if (!words.done()) return std::nullopt;
  return numbers;
}

}  // namespace foretrace
