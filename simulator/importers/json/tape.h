#pragma once
// One JSON value in memory as a flat list of tokens: for parts of a document, such as one node of
// an execution trace, that are small and easier to read once whole.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace foretrace::json {

class Tape {
 public:
  enum class Kind : uint8_t { kObject, kArray, kKey, kString, kLiteral };
  // Position of a token; kNone: absent.
  using Ref = uint32_t;
  static constexpr Ref kNone = UINT32_MAX;

  void Clear();
  void Open(Kind kind);
  void Close();
  void Add(Kind kind, std::string_view text);
  // Containers still open: 0 when the value is complete.
  size_t depth() const { return open_.size(); }
  // Characters and tokens held.
  size_t bytes() const { return text_.size() + tokens_.size() * sizeof(Token); }

  static constexpr Ref kRoot = 0;
  Kind kind(Ref at) const { return tokens_[at].kind; }
  bool IsArray(Ref at) const { return at != kNone && kind(at) == Kind::kArray; }
  bool IsObject(Ref at) const { return at != kNone && kind(at) == Kind::kObject; }
  bool IsString(Ref at) const { return at != kNone && kind(at) == Kind::kString; }
  // Of a key, string or literal; empty for containers and kNone.
  std::string_view Text(Ref at) const;
  // The value of a member of an object; kNone when `object` is no object or has no such key.
  Ref Member(Ref object, std::string_view key) const;
  // Elements of an array or object: for (Ref e = First(a); e != kNone; e = Next(a, e)). In an
  // object each element is a key; its value is at e + 1.
  Ref First(Ref container) const;
  Ref Next(Ref container, Ref element) const;
  size_t Count(Ref container) const;

 private:
  struct Token {
    Kind kind;
    uint32_t begin = 0;  // of the text; for containers unused
    uint32_t size = 0;
    uint32_t end = 0;  // the token after this value
  };
  std::vector<Token> tokens_;
  std::vector<uint32_t> open_;
  std::string text_;
};

}  // namespace foretrace::json
