#include "simulator/base/yaml.h"

#include <yaml-cpp/depthguard.h>

#include <set>
#include <utility>
#include <vector>

#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/utf8.h"

namespace foretrace {
namespace {

// More than kMaxYamlBytes can hold, so that only aliases get there.
constexpr int64_t kMaxValues = kMaxYamlBytes;

absl::Status CheckKeys(const YAML::Node& map, const std::string& file) {
  std::set<std::string_view> seen;
  for (const auto& entry : map) {
    if (!entry.first.IsScalar()) continue;
    if (!seen.insert(entry.first.Scalar()).second) {
      return InvalidInput("{}:{}: '{}' is given twice; remove one", file,
                          entry.first.Mark().line + 1, Excerpt(entry.first.Scalar(), 60));
    }
  }
  return absl::OkStatus();
}

absl::Status Check(const YAML::Node& root, const std::string& file) {
  std::vector<YAML::Node> open = {root};
  int64_t values = 0;
  while (!open.empty()) {
    const YAML::Node node = std::move(open.back());
    open.pop_back();
    if (++values > kMaxValues) {
      return InvalidInput("{}: its aliases expand to more than {} values", file, kMaxValues);
    }
    if (node.IsMap()) {
      FORETRACE_RETURN_IF_ERROR(CheckKeys(node, file));
      for (const auto& entry : node) {
        if (!entry.second.IsScalar()) open.push_back(entry.second);
      }
    } else if (node.IsSequence()) {
      for (const auto& item : node) {
        if (!item.IsScalar()) open.push_back(item);
      }
    }
    values += static_cast<int64_t>(node.size());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<YAML::Node> ParseYaml(const std::string& text, const std::string& file) {
  const std::string name = OneLine(file);
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    for (size_t i = 1; i < documents.size(); ++i) {
      if (documents[i].IsNull()) continue;  // a separator at the end
      return InvalidInput("{}:{}: a second YAML document begins here; only one is read", name,
                          documents[i].Mark().line + 1);
    }
    YAML::Node root = documents.empty() ? YAML::Node() : documents.front();
    FORETRACE_RETURN_IF_ERROR(Check(root, name));
    return root;
  } catch (const YAML::DeepRecursion& error) {
    return InvalidInput("{}:{}: not valid YAML: nested too deeply", name, error.mark.line + 1);
  } catch (const YAML::Exception& error) {
    return InvalidInput("{}:{}: not valid YAML: {}", name, error.mark.line + 1, OneLine(error.msg));
  }
}

absl::StatusOr<YAML::Node> ReadYaml(const std::string& path) {
  FORETRACE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMaxYamlBytes));
  return ParseYaml(text, path);
}

}  // namespace foretrace
