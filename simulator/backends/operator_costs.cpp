#include "simulator/backends/operator_costs.h"

#include <algorithm>
#include <array>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "simulator/base/csv.h"
#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/utf8.h"

namespace foretrace {
namespace {

constexpr int64_t kMaxBytes = int64_t{256} << 20;
constexpr double kMaxUs = 1e9;                    // no operator takes a thousand seconds
constexpr std::string_view kUnnamed = "unnamed";  // a log that does not say its device
constexpr std::array<std::string_view, 4> kColumns = {"op", "shape", "time_us", "backend"};

std::string Key(std::string_view op, std::string_view shape) {
  return std::string(op) + "|" + std::string(shape);
}

// Of ascending times; the mean of the two in the middle.
SimTime Median(const std::vector<SimTime>& times) {
  const size_t half = times.size() / 2;
  return times.size() % 2 == 1 ? times[half] : (times[half - 1] + times[half]).ScaledBy(0.5);
}

// Writes what a set of operators is called.
class Description {
 public:
  Description(const OperatorView& dag, const std::vector<int32_t>& ops, bool biases_added)
      : dag_(dag), ops_(ops), biases_added_(biases_added) {
    tree_ = Tree(ops.back());
    // The first input of the pattern is its leftmost.
    int32_t leftmost = ops.back();
    while (true) {
      const std::vector<int32_t>& inputs = dag.op(leftmost).inputs;
      if (inputs.empty() || !std::ranges::binary_search(ops, inputs.front())) break;
      leftmost = inputs.front();
    }
    shape_ = dag.op(leftmost).shape;
  }

  std::vector<std::string> keys() const {
    std::string shape = "data=" + shape_;
    for (const std::string& attribute : attributes_) shape += ";" + attribute;
    return {Key(tree_, shape), Key(chain_, shape)};
  }

 private:
  std::string Tree(int32_t op) {
    if (op == kNoProducer || !std::ranges::binary_search(ops_, op)) return "*";
    const ViewedOp& here = dag_.op(op);
    // Shared operands are written out each time, as in the tables, which doubles per level.
    if (++written_ > kMaxWritten) return "*";
    std::string inputs;
    for (const int32_t input : here.inputs) {
      if (!inputs.empty()) inputs += ',';
      inputs += Tree(input);
    }
    const bool is_bias = biases_added_ && here.type == "biasadd";
    const std::string type = is_bias ? "add" : here.type;
    if (visited_.insert(op).second) {
      chain_ += (chain_.empty() ? "" : "+") + type;
      for (const auto& [key, value] : here.attributes) {
        if (!is_bias) attributes_.insert(type + "." + key + "=" + value);
      }
    }
    return type + "(" + inputs + ")";
  }

  const OperatorView& dag_;
  const std::vector<int32_t>& ops_;
  bool biases_added_;
  static constexpr int kMaxWritten = 4096;
  int written_ = 0;
  std::set<int32_t> visited_;
  std::set<std::string> attributes_;
  std::string tree_, chain_, shape_;
};

}  // namespace

std::vector<std::string> CostKeys(const OperatorView& dag, const std::vector<int32_t>& ops) {
  std::vector<std::string> keys = Description(dag, ops, false).keys();
  if (std::ranges::any_of(ops, [&](int32_t op) { return dag.op(op).type == "biasadd"; })) {
    for (std::string& key : Description(dag, ops, true).keys()) keys.push_back(std::move(key));
  }
  return keys;
}

absl::Status OperatorCosts::Read(const std::string& file) {
  FORETRACE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(file, kMaxBytes));
  return Parse(text, file);
}

absl::Status OperatorCosts::Parse(const std::string& text, const std::string& file) {
  std::array<size_t, kColumns.size()> column{};
  bool header = true;
  size_t platform = 0;  // beyond the fields where there is no such column
  int64_t number = 0;
  for (const absl::string_view part : absl::StrSplit(text, '\n')) {
    const std::string_view line(part.data(), part.size());
    ++number;
    if (line.empty() || line == "\r" || line.front() == '#') continue;
    const std::vector<std::string> fields = SplitCsvLine(line);
    if (header) {
      for (size_t i = 0; i < kColumns.size(); ++i) {
        const auto found = std::ranges::find(fields, kColumns[i]);
        if (found == fields.end()) {
          return InvalidInput(
              "{}: line {}: no column '{}'; scripts/import_collage.py writes tables of measured "
              "operators with it",
              file, number, kColumns[i]);
        }
        column[i] = static_cast<size_t>(found - fields.begin());
      }
      platform = static_cast<size_t>(std::ranges::find(fields, "platform") - fields.begin());
      header = false;
      continue;
    }
    if (fields.size() <= std::ranges::max(column)) {
      return InvalidInput("{}: line {}: {} fields, fewer than the header has", file, number,
                          fields.size());
    }
    double us = 0;
    if (!absl::SimpleAtod(fields[column[2]], &us) || !(us > 0) || us > kMaxUs) {
      return InvalidInput(
          "{}: line {}: time_us is '{}'; a time above 0 is needed, leave out what was not measured",
          file, number, fields[column[2]]);
    }
    if (fields[column[0]].empty() || fields[column[3]].empty()) {
      return InvalidInput("{}: line {}: op or backend is empty", file, number);
    }
    if (platform < fields.size() && fields[platform] != kUnnamed) {
      if (platform_.empty()) platform_ = fields[platform];
      if (platform_ != fields[platform]) {
        return InvalidInput(
            "{}: line {}: measured on {}, other rows on {}; give the tables of one device", file,
            number, Excerpt(fields[platform], 40), Excerpt(platform_, 40));
      }
    }
    const SimTime time = SimTime::FromUs(us);
    std::vector<SimTime>& repeats =
        times_[Key(fields[column[0]], fields[column[1]])][fields[column[3]]];
    repeats.insert(std::ranges::upper_bound(repeats, time), time);
    ++rows_;
  }
  if (rows_ == 0) return InvalidInput("{}: no measured operator in it", file);
  return absl::OkStatus();
}

std::optional<SimTime> OperatorCosts::Find(const OperatorView& dag, const std::vector<int32_t>& ops,
                                           const Backend& backend) const {
  for (const std::string& key : CostKeys(dag, ops)) {
    const auto entry = times_.find(key);
    if (entry == times_.end()) continue;
    if (const auto time = entry->second.find(backend.name); time != entry->second.end()) {
      return Median(time->second);
    }
    for (const std::string& alias : backend.aliases) {
      if (const auto time = entry->second.find(alias); time != entry->second.end()) {
        return Median(time->second);
      }
    }
  }
  return std::nullopt;
}

std::vector<std::string> OperatorCosts::UnknownTypes(const std::vector<Backend>& backends) const {
  std::set<std::string> known = {"", "*"};
  for (const Backend& backend : backends) {
    for (const auto& [type, fusion_class] : backend.rule.classes) known.insert(type);
    for (const Pattern& pattern : backend.patterns) {
      for (const PatternNode& node : pattern.nodes) known.insert(node.type);
    }
  }
  std::set<std::string> unknown;
  for (const auto& [key, by_backend] : times_) {
    const std::string op = key.substr(0, key.find('|'));
    for (const absl::string_view part : absl::StrSplit(op, absl::ByAnyChar("+(),*"))) {
      const std::string type(part.data(), part.size());
      if (!known.contains(type)) unknown.insert(type);
    }
  }
  return {unknown.begin(), unknown.end()};
}

SimTime OperatorCosts::FixedPart(const Backend& backend) const {
  SimTime own = SimTime::Max(), all = SimTime::Max();
  for (const auto& [key, by_backend] : times_) {
    for (const auto& [name, times] : by_backend) {
      const SimTime time = Median(times);
      all = std::min(all, time);
      if (name == backend.name ||
          std::ranges::find(backend.aliases, name) != backend.aliases.end()) {
        own = std::min(own, time);
      }
    }
  }
  return own == SimTime::Max() ? SimTime() : own - all;
}

std::vector<KernelChoice> TimedChoices(const OperatorView& dag,
                                       const std::vector<Backend>& backends,
                                       const std::vector<BackendMatch>& matches,
                                       const OperatorCosts& costs, const KernelTimer& timer) {
  std::vector<KernelChoice> choices;
  for (const BackendMatch& match : matches) {
    const Backend& backend = backends[static_cast<size_t>(match.backend)];
    KernelChoice choice{match.ops, match.backend, {}};
    choice.launch = backend.launch;
    if (const std::optional<SimTime> time = costs.Find(dag, match.ops, backend)) {
      choice.time = *time;
    } else if (timer) {
      const std::optional<Estimate> estimate = EstimateGroup(dag, match.ops, timer);
      if (!estimate.has_value()) continue;
      choice.time = estimate->time;
      choice.source = estimate->source;
      choice.extrapolated = estimate->extrapolated;
      choice.launches = static_cast<int32_t>(GroupKernels(dag, match.ops).size());
    } else {
      continue;
    }
    choices.push_back(std::move(choice));
  }
  return choices;
}

}  // namespace foretrace
