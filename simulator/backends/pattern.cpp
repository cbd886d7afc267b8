#include "simulator/backends/pattern.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>

#include "simulator/base/error.h"

namespace foretrace {
namespace {

constexpr size_t kMaxNodes = 256;
constexpr int kMaxDepth = 256;

bool IsCommutative(std::string_view type) {
  constexpr std::array<std::string_view, 4> kTypes = {"add", "multiply", "maximum", "minimum"};
  return std::ranges::find(kTypes, type) != kTypes.end();
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) { out_.text = text; }

  absl::StatusOr<Pattern> Run() {
    Node(0);
    Skip();
    if (problem_.empty() && at_ < text_.size() && text_[at_] == ',') {
      problem_ =
          "it has several outputs, which one kernel of a placement cannot have; write a "
          "pattern for each";
    }
    if (problem_.empty() && at_ != text_.size()) problem_ = "there is text after its end";
    if (problem_.empty() && out_.nodes.back().type == "*") {
      problem_ = "its root is a wildcard *, which matches nothing; name an operator, or ? for any";
    }
    if (!problem_.empty()) {
      return InvalidInput("pattern '{}': {} (position {})", text_, problem_, at_ + 1);
    }
    return out_;
  }

 private:
  void Skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool Take(char c) {
    Skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  int32_t Node(int depth) {
    if (depth > kMaxDepth) problem_ = "it is nested too deeply";
    if (!problem_.empty()) return 0;
    PatternNode node;
    std::string name;
    if (Take('$')) {
      name = Word();
      if (name.empty()) problem_ = "a name is expected after $";
      if (problem_.empty() && !Take('=')) return Reference(name);
    }
    if (Take('*')) {
      node.type = "*";
    } else if (Take('?')) {
      node.type = "?";
    } else {
      Skip();
      node.type = Word();
      if (problem_.empty() && node.type.empty()) problem_ = "an operator, * or ? is expected";
    }
    if (problem_.empty() && node.type != "*" && Take('(')) {
      do {
        node.inputs.push_back(Node(depth + 1));
      } while (problem_.empty() && Take(','));
      if (problem_.empty() && !Take(')')) problem_ = "a ) is missing";
    }
    if (problem_.empty() && out_.nodes.size() >= 2 * kMaxNodes) {
      problem_ = "it has too many operators";
    }
    return Add(std::move(node), name);
  }

  int32_t Add(PatternNode node, const std::string& name) {
    const auto id = static_cast<int32_t>(out_.nodes.size());
    if (!name.empty() && !names_.emplace(name, id).second && problem_.empty()) {
      problem_ = "$" + name + " names another operator already";
    }
    out_.nodes.push_back(std::move(node));
    return id;
  }

  int32_t Reference(const std::string& name) {
    const auto found = names_.find(name);
    if (found == names_.end()) {
      problem_ = "$" + name + " names nothing before it; write $" + name + "=... where it is first";
      return 0;
    }
    return Add({"$", found->second, {}}, "");
  }

  std::string Word() {
    std::string word;
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 ||
                                  text_[at_] == '_' || text_[at_] == '.')) {
      word += text_[at_++];
    }
    return word;
  }

  std::map<std::string, int32_t> names_;
  std::string_view text_;
  size_t at_ = 0;
  std::string problem_;
  Pattern out_;
};

class Matcher {
 public:
  Matcher(const Pattern& pattern, const OperatorView& dag)
      : pattern_(pattern), dag_(dag), matched_(pattern.nodes.size(), kNoProducer) {}

  bool Match(int32_t node, int32_t op) {
    const PatternNode& wanted = pattern_.nodes[static_cast<size_t>(node)];
    // What a name stands for is matched before it is read again: nodes are in the text's order.
    if (wanted.same_as >= 0) {
      return op != kNoProducer && op == matched_[static_cast<size_t>(wanted.same_as)];
    }
    matched_[static_cast<size_t>(node)] = op;
    if (wanted.type == "*") return true;
    if (op == kNoProducer || ++steps_ > kMaxSteps) return false;
    const ViewedOp& here = dag_.op(op);
    if (wanted.type != "?" && wanted.type != here.type) return false;
    for (const Constraint& constraint : pattern_.constraints) {
      if (constraint.type == here.type && !Meets(here, constraint)) {
        constraint_failed_ = true;
        return false;
      }
    }
    const size_t before = taken_.size();
    taken_.push_back(op);
    if (MatchInputs(wanted.inputs, here.inputs)) return true;
    taken_.resize(before + 1);
    if (IsCommutative(here.type) && here.inputs.size() == 2 &&
        MatchInputs(wanted.inputs, {here.inputs[1], here.inputs[0]})) {
      return true;
    }
    taken_.resize(before);
    return false;
  }

  std::vector<int32_t> taken() {
    std::ranges::sort(taken_);
    taken_.erase(std::unique(taken_.begin(), taken_.end()), taken_.end());
    return taken_;
  }
  bool constraint_failed() const { return constraint_failed_; }

 private:
  bool MatchInputs(const std::vector<int32_t>& wanted, const std::vector<int32_t>& inputs) {
    if (wanted.empty()) return true;
    if (wanted.size() != inputs.size()) return false;
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (!Match(wanted[i], inputs[i])) return false;
    }
    return true;
  }

  const Pattern& pattern_;
  const OperatorView& dag_;
  std::vector<int32_t> matched_;  // by node
  std::vector<int32_t> taken_;
  bool constraint_failed_ = false;
  // Nested commutative operators are tried in every order, which doubles per level.
  static constexpr int kMaxSteps = 100'000;
  int steps_ = 0;
};

}  // namespace

absl::StatusOr<Pattern> ParsePattern(std::string_view text) { return Parser(text).Run(); }

bool Meets(const ViewedOp& op, const Constraint& constraint) {
  std::string value;
  if (constraint.attribute == "rank") {
    value = std::to_string(op.shape.empty() ? 0 : 1 + std::ranges::count(op.shape, 'x'));
  } else {
    const auto found = op.attributes.find(constraint.attribute);
    if (found == op.attributes.end()) return false;
    value = found->second;
  }
  return std::ranges::find(constraint.values, value) != constraint.values.end();
}

bool HasOneOutput(const OperatorView& dag, const std::vector<int32_t>& ops) {
  for (const int32_t op : ops) {
    if (op == ops.back()) continue;
    // What nobody reads is a result of the graph.
    if (dag.consumers(op).empty()) return false;
    for (const int32_t reader : dag.consumers(op)) {
      if (!std::ranges::binary_search(ops, reader)) return false;
    }
  }
  return true;
}

MatchResult MatchAt(const Pattern& pattern, const OperatorView& dag, int32_t root) {
  Matcher matcher(pattern, dag);
  if (!matcher.Match(static_cast<int32_t>(pattern.nodes.size()) - 1, root)) {
    return {std::nullopt, matcher.constraint_failed() ? Mismatch::kConstraint : Mismatch::kType};
  }
  std::vector<int32_t> ops = matcher.taken();
  if (!HasOneOutput(dag, ops)) return {std::nullopt, Mismatch::kSecondOutput};
  return {std::move(ops), Mismatch::kType};
}

}  // namespace foretrace
