#include "simulator/backends/pattern_generator.h"

#include <algorithm>
#include <set>

namespace foretrace {
namespace {

constexpr int32_t kNone = -1;

class Generator {
 public:
  Generator(const OperatorView& dag, const std::vector<Backend>& backends)
      : dag_(dag), backends_(backends), next_(PostDominators(dag)) {}

  GeneratedMatches Run() {
    for (size_t i = 0; i < backends_.size(); ++i) {
      backend_ = static_cast<int32_t>(i);
      found_.clear();
      for (const Pattern& pattern : backends_[i].patterns) MatchPattern(pattern);
      for (int32_t op = 0; op < dag_.size(); ++op) Grow(op);
      for (const std::vector<int32_t>& ops : found_) out_.matches.push_back({backend_, ops});
    }
    return std::move(out_);
  }

 private:
  const Backend& backend() const { return backends_[static_cast<size_t>(backend_)]; }

  bool PassesChecks(int32_t op) const {
    return std::ranges::all_of(backend().checks, [&](const Constraint& check) {
      return check.type != dag_.op(op).type || Meets(dag_.op(op), check);
    });
  }

  void MatchPattern(const Pattern& pattern) {
    for (int32_t root = 0; root < dag_.size(); ++root) {
      const MatchResult match = MatchAt(pattern, dag_, root);
      if (match.ops.has_value()) {
        const auto failing =
            std::ranges::find_if(*match.ops, [&](int32_t op) { return !PassesChecks(op); });
        if (failing == match.ops->end()) {
          found_.insert(*match.ops);
        } else {
          Refuse(root, pattern.text + ": operator '" + dag_.op(*failing).name +
                           "' fails the backend's checks");
        }
      } else if (match.why == Mismatch::kSecondOutput) {
        Refuse(root, pattern.text +
                         ": an operator within is read from outside too, so the kernel would have "
                         "several outputs");
      } else if (match.why == Mismatch::kConstraint) {
        Refuse(root, pattern.text + ": an attribute or shape is not one that it takes");
      }
    }
  }

  void Refuse(int32_t root, std::string why) {
    out_.refused.push_back({backend_, root, std::move(why)});
  }

  // The op rule: the class of an operator that the backend runs.
  const FusionClass* ClassOf(int32_t op) const {
    const auto found = backend().rule.classes.find(dag_.op(op).type);
    return found == backend().rule.classes.end() || !PassesChecks(op) ? nullptr : &found->second;
  }

  void Grow(int32_t seed) {
    const FusionClass* seed_class = ClassOf(seed);
    if (seed_class == nullptr) return;
    FusionClass group = *seed_class;
    std::set<int32_t> members = {seed};
    found_.insert({seed});
    for (int32_t sink = next_[static_cast<size_t>(seed)]; sink != kNone;
         sink = next_[static_cast<size_t>(sink)]) {
      if (!Absorb(sink, group, members)) return;
      const std::vector<int32_t> ops(members.begin(), members.end());
      if (static_cast<int32_t>(ops.size()) > backend().rule.max_ops) return;
      found_.insert(ops);
    }
  }

  // The fusion rule: adds everything on paths from the group to `sink`. False where a class on the
  // way may not follow the group's.
  bool Absorb(int32_t sink, FusionClass& group, std::set<int32_t>& members) const {
    const auto allowed = backend().rule.fuses.find(group);
    if (allowed == backend().rule.fuses.end()) return false;
    FusionClass highest = group;
    std::vector<int32_t> open(members.begin(), members.end());
    while (!open.empty()) {
      const int32_t from = open.back();
      open.pop_back();
      if (from == sink) continue;
      for (const int32_t op : dag_.consumers(from)) {
        if (!members.insert(op).second) continue;
        const FusionClass* its = ClassOf(op);
        if (its == nullptr || std::ranges::find(allowed->second, *its) == allowed->second.end()) {
          return false;
        }
        highest = std::max(highest, *its);
        open.push_back(op);
      }
    }
    group = highest;
    return true;
  }

  const OperatorView& dag_;
  const std::vector<Backend>& backends_;
  const std::vector<int32_t> next_;
  int32_t backend_ = 0;
  std::set<std::vector<int32_t>> found_;
  GeneratedMatches out_;
};

}  // namespace

// Cooper, Harvey and Kennedy's intersection on the reversed graph, whose order is known: one pass.
std::vector<int32_t> PostDominators(const OperatorView& dag) {
  std::vector<int32_t> next(static_cast<size_t>(dag.size()), kNone);
  for (int32_t op = dag.size() - 1; op >= 0; --op) {
    const std::vector<int32_t>& readers = dag.consumers(op);
    if (readers.empty()) continue;
    int32_t common = readers.front();
    for (const int32_t reader : readers) {
      int32_t other = reader;
      while (common != other && common != kNone && other != kNone) {
        int32_t& behind = common < other ? common : other;
        behind = next[static_cast<size_t>(behind)];
      }
      if (other == kNone) common = kNone;
    }
    next[static_cast<size_t>(op)] = common;
  }
  return next;
}

GeneratedMatches GenerateMatches(const OperatorView& dag, const std::vector<Backend>& backends) {
  return Generator(dag, backends).Run();
}

}  // namespace foretrace
