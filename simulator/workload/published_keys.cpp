#include "simulator/workload/published_keys.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/nearest_name.h"
#include "simulator/base/utf8.h"

namespace foretrace {

PublishedKeys::PublishedKeys(const YAML::Node& map, std::string where,
                             std::map<std::string, int64_t> defaults)
    : map_(map), where_(std::move(where)), defaults_(std::move(defaults)) {
  if (!map_.IsMap()) status_ = InvalidInput("{}: must be a map", where_);
}

bool PublishedKeys::Has(const char* key) const {
  if (!map_.IsMap()) return false;
  const YAML::Node value = map_[key];
  return value.IsDefined() && !value.IsNull();
}

bool PublishedKeys::IsNull(const char* key) const {
  return map_.IsMap() && map_[key].IsDefined() && map_[key].IsNull();
}

YAML::Node PublishedKeys::Find(Names keys, const char*& key) {
  for (const char* name : keys) {
    known_.insert(name);
    if (!Has(name)) continue;
    key = name;
    return map_[name];
  }
  for (const char* name : keys) {
    if (!map_.IsMap() || !map_[name].IsDefined()) missing_.insert(name);
  }
  return YAML::Node(YAML::NodeType::Undefined);
}

void PublishedKeys::Fail(const char* key, const char* what) {
  if (status_.ok()) status_ = InvalidInput("{}: '{}' {}", where_, key, what);
}

void PublishedKeys::Refuse(std::string what) {
  if (status_.ok()) status_ = InvalidInput("{}: {}", where_, what);
}

int64_t PublishedKeys::Size(Names keys, int64_t otherwise) {
  const char* key = *keys.begin();
  const YAML::Node found = Find(keys, key);
  if (!found.IsDefined()) {
    for (const char* name : keys) {
      const auto known = defaults_.find(name);
      if (known == defaults_.end()) continue;
      if (map_.IsMap() && map_[name].IsDefined()) continue;  // said to be null
      taken_.push_back(fmt::format("{} {}", name, known->second));
      return known->second;
    }
    return otherwise;
  }
  constexpr double kMost = 1e9;  // so that a product of two is a number of 64 bits
  double number = 0;
  if (!found.IsScalar() || !YAML::convert<double>::decode(found, number) ||
      number != std::floor(number)) {
    Fail(key, "is not a whole number");
    return otherwise;
  }
  if (number < 0 || number > kMost) {
    Fail(key, number < 0 ? "is negative" : "is above 10^9");
    return otherwise;
  }
  return static_cast<int64_t>(number);
}

int64_t PublishedKeys::Size(Names keys) {
  const int64_t size = Size(keys, -1);
  if (size >= 0 || !status_.ok()) return std::max<int64_t>(size, 0);
  std::vector<std::string> there;
  for (const auto& entry : map_) {
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
    if (!known_.contains(key)) there.push_back(key);
  }
  const std::string meant = NearestName(*keys.begin(), there);
  status_ = InvalidInput("{}: lacks '{}'{}", where_, *keys.begin(),
                         meant.empty() ? "" : fmt::format("; '{}' is none of its keys", meant));
  return 0;
}

bool PublishedKeys::Flag(Names keys, bool otherwise) {
  const char* key = *keys.begin();
  const YAML::Node found = Find(keys, key);
  bool value = otherwise;
  if (found.IsDefined() && !YAML::convert<bool>::decode(found, value)) {
    Fail(key, "is not true or false");
  }
  return value;
}

std::string PublishedKeys::Word(Names keys, std::string_view otherwise) {
  const char* key = *keys.begin();
  const YAML::Node found = Find(keys, key);
  if (!found.IsDefined()) return std::string(otherwise);
  if (found.IsScalar()) return found.Scalar();
  Fail(key, "is not a word");
  return std::string(otherwise);
}

std::vector<std::string> PublishedKeys::Words(const char* key) {
  const char* at = key;
  const YAML::Node found = Find({key}, at);
  std::vector<std::string> words;
  if (!found.IsDefined()) return words;
  if (!found.IsSequence()) {
    Fail(key, "is not a list");
    return words;
  }
  for (const YAML::Node& word : found) {
    if (!word.IsScalar()) {
      Fail(key, "has an entry that is neither a word nor a number");
      return {};
    }
    words.push_back(word.Scalar());
  }
  return words;
}

std::vector<int64_t> PublishedKeys::Numbers(const char* key) {
  std::vector<int64_t> numbers;
  for (const std::string& word : Words(key)) {
    int64_t number = 0;
    if (!YAML::convert<int64_t>::decode(YAML::Node(word), number)) {
      Fail(key, "is not a list of whole numbers");
    }
    numbers.push_back(number);
  }
  return numbers;
}

bool PublishedKeys::Any(Names shares) {
  bool any = false;
  for (const char* share : shares) {
    const char* key = share;
    const YAML::Node found = Find({share}, key);
    double value = 0;
    if (!found.IsDefined()) continue;
    if (!YAML::convert<double>::decode(found, value)) Fail(key, "is not a number");
    any |= value > 0;
  }
  return any;
}

PublishedKeys PublishedKeys::Within(const char* key) {
  const char* at = key;
  const YAML::Node found = Find({key}, at);
  return {found.IsDefined() ? found : YAML::Node(YAML::NodeType::Map),
          fmt::format("{}: {}", where_, key),
          {}};
}

void PublishedKeys::Merge(const PublishedKeys& within) {
  if (status_.ok()) status_ = within.Finish();
  for (std::string& note : within.Notes()) notes_.push_back(std::move(note));
}

absl::Status PublishedKeys::Finish() const {
  if (!status_.ok()) return status_;
  for (const auto& entry : map_) {
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
    if (known_.contains(key) || key.size() > 64) continue;
    for (const std::string& missing : missing_) {
      if (missing.size() < 8 || EditDistance(key, missing) > 1) continue;
      return InvalidInput("{}: unknown key '{}'; '{}' is meant, or remove it", where_, OneLine(key),
                          missing);
    }
  }
  return absl::OkStatus();
}

std::vector<std::string> PublishedKeys::Notes() const {
  std::vector<std::string> notes = notes_;
  if (!taken_.empty()) {
    notes.push_back(fmt::format("{}: what it leaves out is as its class has it by default: {}",
                                where_, fmt::join(taken_, ", ")));
  }
  return notes;
}

}  // namespace foretrace
