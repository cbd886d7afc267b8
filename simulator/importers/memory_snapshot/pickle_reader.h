#pragma once
// Plain data out of Python's pickle format, protocols 2 to 5 (pickletools.py lists the opcodes).

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"

namespace foretrace {

struct PickleValue;
using PickleRef = PickleValue*;  // a value may be at several places, and within itself

struct PickleValue {
  struct List {
    std::vector<PickleRef> items;  // of a tuple, too
  };
  struct Dict {
    std::vector<std::pair<PickleRef, PickleRef>> items;
  };
  // std::monostate: None.
  std::variant<std::monostate, bool, int64_t, double, std::string, List, Dict> value;

  // Of a dictionary with text for a key; null: there is none.
  const PickleValue* Find(std::string_view key) const;
  int64_t Integer(std::string_view key, int64_t absent = 0) const;
  std::string_view Text(std::string_view key) const;
  // Empty where it is none.
  const std::vector<PickleRef>& ListOf(std::string_view key) const;
  const std::vector<PickleRef>& list() const;
};

// Numbers, text, bytes, lists, tuples and dictionaries. Whatever would import or call something
// (GLOBAL, REDUCE, BUILD, ...) is refused by name, so that nothing of the file is ever executed.
// `context` begins the messages of errors.
class Pickle {
 public:
  static absl::StatusOr<Pickle> Read(std::string_view bytes, std::string_view context);
  const PickleValue& root() const { return *root_; }

 private:
  std::deque<PickleValue> values_;
  const PickleValue* root_ = nullptr;
};

}  // namespace foretrace
