#include "simulator/mapping/training_row_text.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <span>

namespace foretrace {
namespace {

bool IsLetter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }
bool IsDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

bool IsOneOf(std::string_view word, std::span<const std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

// Words that deny what follows them, and those that may stand between.
constexpr std::string_view kNo[] = {"no", "not", "non", "without", "never", "disable", "disabling"};
constexpr std::string_view kBetween[] = {"using", "use", "used", "with", "any", "the"};

// Words that deny what is before them, and verbs that may stand between.
constexpr std::string_view kOff[] = {"off", "false", "disabled", "unused", "none", "0", "never"};
constexpr std::string_view kVerbs[] = {"is",   "was", "are", "were",   "be",
                                       "been", "set", "to",  "turned", "switched"};
constexpr std::string_view kInUse[] = {"used", "enabled", "on", "active", "applied"};

}  // namespace

std::vector<std::string> TextWords(const std::string& text) {
  std::vector<std::string> words;
  bool within = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = static_cast<char>(std::tolower(static_cast<unsigned char>(text[i])));
    const bool joined = std::string_view(" \t\r\n=:_-'\"").find(c) != std::string_view::npos;
    const bool point =
        c == '.' && within && IsDigit(text[i - 1]) && i + 1 < text.size() && IsDigit(text[i + 1]);
    const bool letter = point || IsLetter(c);
    if (letter && within) {
      words.back() += c;
    } else if (!joined) {
      words.emplace_back(1, c);
    }
    within = letter;
  }
  return words;
}

size_t TermAt(const std::vector<std::string>& words, size_t at, std::string_view term) {
  size_t count = 0;
  while (!term.empty()) {
    if (at + count == words.size()) return 0;
    const size_t end = std::min(term.find(' '), term.size());
    std::string_view word = term.substr(0, end);
    const std::string& said = words[at + count];
    const bool beginning = word.ends_with('*');
    if (beginning) word.remove_suffix(1);
    if (beginning ? !said.starts_with(word) : said != word) return 0;
    term.remove_prefix(std::min(end + 1, term.size()));
    ++count;
  }
  return count;
}

bool Denied(const std::vector<std::string>& words, size_t at, size_t count) {
  size_t before = at;
  while (before > 0 && IsOneOf(words[before - 1], kBetween)) --before;
  if (before > 0 && IsOneOf(words[before - 1], kNo)) return true;
  size_t behind = at + count;
  while (behind < words.size() && IsOneOf(words[behind], kVerbs)) ++behind;
  if (behind == words.size()) return false;
  if (IsOneOf(words[behind], kOff)) return true;
  // Of "DeepEP, no overlap" and "DeepEP no overlap" the other is denied.
  const bool last = behind + 1 == words.size() || !IsLetter(words[behind + 1][0]);
  if (words[behind] == "no") return last;
  if (words[behind] != "not") return false;
  return last || behind > at + count || IsOneOf(words[behind + 1], kInUse);
}

Told ToldOf(const std::vector<std::string>& words, std::initializer_list<std::string_view> terms) {
  Told told = Told::kNothing;
  for (size_t at = 0; at < words.size(); ++at) {
    for (const std::string_view term : terms) {
      const size_t count = TermAt(words, at, term);
      if (count == 0) continue;
      if (!Denied(words, at, count)) return Told::kYes;
      told = Told::kNo;
      at += count - 1;
      break;
    }
  }
  return told;
}

int32_t WholeNumber(std::string_view word) {
  int32_t value = 0;
  const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), value);
  const bool whole = code == std::errc() && end == word.data() + word.size();
  return whole && value > 0 ? value : 0;
}

}  // namespace foretrace
