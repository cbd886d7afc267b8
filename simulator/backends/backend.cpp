#include "simulator/backends/backend.h"

#include <algorithm>
#include <array>

#include "simulator/base/yaml_reader.h"

namespace foretrace {
namespace {

constexpr std::array<std::string_view, 7> kClassNames = {
    "elementwise", "broadcast", "injective", "reduction", "fusable", "tuple", "opaque"};
constexpr std::array<FusionClass, 7> kClasses = {FusionClass::kElementwise, FusionClass::kBroadcast,
                                                 FusionClass::kInjective,   FusionClass::kReduction,
                                                 FusionClass::kFusable,     FusionClass::kTuple,
                                                 FusionClass::kOpaque};
constexpr std::array<std::string_view, 2> kKindNames = {"library", "compiler"};

class Loader {
 public:
  explicit Loader(const YamlReader& root) : root_(root) {}

  absl::StatusOr<Backend> Load(const std::string& file) {
    root_.ExpectKeys(std::array<std::string_view, 11>{"name", "description", "source", "kind",
                                                      "device", "aliases", "patterns", "rule",
                                                      "checks", "inference_only", "launch_us"});
    out_.file = file;
    out_.name = root_.String("name");
    out_.device = root_.String("device");
    root_.String("source");
    out_.kind = static_cast<BackendKind>(root_.Choice("kind", kKindNames));
    if (root_.ok() && root_.Has("aliases")) {
      for (const YamlReader& item : root_.Child("aliases").Items()) {
        out_.aliases.push_back(item.AsString());
      }
    }
    if (root_.ok() && root_.Has("patterns")) {
      for (const YamlReader& item : root_.Child("patterns").Items()) LoadPattern(item);
    }
    if (root_.ok() && root_.Has("rule")) LoadRule(root_.Child("rule"));
    if (root_.ok() && root_.Has("checks")) out_.checks = Constraints(root_.Child("checks"));
    if (root_.ok()) out_.inference_only = root_.Bool("inference_only", false);
    if (root_.ok() && root_.Has("launch_us")) {
      out_.launch = SimTime::FromUs(root_.Number("launch_us", 0, 1e6));
    }
    if (root_.ok()) Check();
    if (!root_.ok()) return root_.status();
    return out_;
  }

 private:
  // {conv2d: {data_layout: [NCHW]}}
  std::vector<Constraint> Constraints(const YamlReader& node) {
    std::vector<Constraint> all;
    for (const auto& [type, wanted] : node.Entries()) {
      for (const auto& [attribute, values] : wanted.Entries()) {
        Constraint constraint{type, attribute, {}};
        for (const YamlReader& value : values.Items()) {
          constraint.values.push_back(value.AsString());
        }
        if (node.ok() && constraint.values.empty()) {
          wanted.Fail(attribute, "no value is allowed, so nothing could match; list some");
        }
        all.push_back(std::move(constraint));
      }
    }
    return all;
  }

  void LoadPattern(const YamlReader& item) {
    if (!item.ok()) return;
    item.ExpectKeys(std::array<std::string_view, 2>{"match", "where"});
    const std::string text = item.String("match");
    if (!item.ok()) return;
    absl::StatusOr<Pattern> pattern = ParsePattern(text);
    if (!pattern.ok()) {
      item.Fail("match", std::string(pattern.status().message()));
      return;
    }
    if (item.Has("where")) pattern->constraints = Constraints(item.Child("where"));
    for (const Constraint& constraint : pattern->constraints) {
      const bool there = std::ranges::any_of(pattern->nodes, [&](const PatternNode& node) {
        return node.type == constraint.type || node.type == "?";
      });
      if (item.ok() && !there) {
        item.Fail("where", "no operator '" + constraint.type +
                               "' is in the pattern, so the constraint says nothing");
      }
    }
    out_.patterns.push_back(*std::move(pattern));
  }

  void LoadRule(const YamlReader& rule) {
    rule.ExpectKeys(std::array<std::string_view, 3>{"classes", "fuses", "max_ops"});
    out_.rule.max_ops = rule.Integer("max_ops", 1, 256, 256);
    const YamlReader classes = rule.Child("classes");
    classes.ExpectKeys(kClassNames);
    for (size_t i = 0; i < kClasses.size() && rule.ok(); ++i) {
      if (!classes.Has(kClassNames[i])) continue;
      for (const YamlReader& type : classes.Child(kClassNames[i]).Items()) {
        const std::string name = type.AsString();
        if (rule.ok() && !out_.rule.classes.emplace(name, kClasses[i]).second) {
          classes.Fail(kClassNames[i], "operator '" + name + "' is in another class already");
        }
      }
    }
    if (!rule.ok() || !rule.Has("fuses")) return;
    const YamlReader fuses = rule.Child("fuses");
    fuses.ExpectKeys(kClassNames);
    for (size_t i = 0; i < kClasses.size() && rule.ok(); ++i) {
      if (!fuses.Has(kClassNames[i])) continue;
      for (const YamlReader& follower : fuses.Child(kClassNames[i]).Items()) {
        const std::string name = follower.AsString();
        const auto* const found = std::ranges::find(kClassNames, name);
        if (found == kClassNames.end()) {
          fuses.Fail(kClassNames[i], "'" + name + "' is no class of operators");
          return;
        }
        out_.rule.fuses[kClasses[i]].push_back(
            kClasses[static_cast<size_t>(found - kClassNames.begin())]);
      }
    }
  }

  void Check() {
    if (out_.patterns.empty() && out_.rule.classes.empty()) {
      root_.Fail("patterns",
                 "the backend has neither patterns nor a rule with classes, so it "
                 "could run nothing");
    }
  }

  const YamlReader& root_;
  Backend out_;
};

}  // namespace

std::string_view Name(BackendKind kind) { return kKindNames[static_cast<size_t>(kind)]; }

absl::StatusOr<Backend> LoadBackend(const std::string& file) {
  return LoadYaml<Backend>(ReadYamlFile(file), file,
                           [&](const YamlReader& root) { return Loader(root).Load(file); });
}

absl::StatusOr<Backend> ParseBackend(const std::string& text, const std::string& file) {
  return LoadYaml<Backend>(ParseYamlText(text, file), file,
                           [&](const YamlReader& root) { return Loader(root).Load(file); });
}

}  // namespace foretrace
