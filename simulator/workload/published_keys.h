#pragma once
// The keys of a config.json, as Hugging Face's transformers writes it.

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace foretrace {

// Reads a map whose other keys say nothing of sizes (of tokens, generation, initial values), and
// remembers the first thing wrong. Keys may have several names, of which the first that is there
// counts; what is null is not there.
class PublishedKeys {
 public:
  using Names = std::initializer_list<const char*>;
  // `defaults`: what a map that leaves sizes out means by it, which is noted.
  PublishedKeys(const YAML::Node& map, std::string where, std::map<std::string, int64_t> defaults);

  bool Has(const char* key) const;
  bool IsNull(const char* key) const;  // said to be so
  // A number, 0 included; it must be there, or is `otherwise`.
  int64_t Size(Names keys);
  int64_t Size(Names keys, int64_t otherwise);
  bool Flag(Names keys, bool otherwise);
  std::string Word(Names keys, std::string_view otherwise);
  std::vector<std::string> Words(const char* key);
  std::vector<int64_t> Numbers(const char* key);
  // Whether any of the shares that are there is above 0.
  bool Any(Names shares);
  // A map within it, empty where it is not there; Merge tells what was wrong in it.
  PublishedKeys Within(const char* key);
  void Merge(const PublishedKeys& within);

  void Note(std::string_view note) { notes_.emplace_back(note); }
  // What a key that is there has cannot be taken.
  void Refuse(std::string what);
  // The first error; one, too, is a key that differs by a letter from one that was asked for and is
  // not there.
  absl::Status Finish() const;
  std::vector<std::string> Notes() const;

 private:
  YAML::Node Find(Names keys, const char*& key);
  void Fail(const char* key, const char* what);

  const YAML::Node map_;
  std::string where_;
  std::map<std::string, int64_t> defaults_;
  std::set<std::string> known_, missing_;
  std::vector<std::string> notes_, taken_;
  absl::Status status_;
};

}  // namespace foretrace
