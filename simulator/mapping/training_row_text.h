#pragma once
// What texts of a row, as people write them, say and deny.

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace foretrace {

// Runs of letters and digits in lower case (a point between digits is of its number), and each sign
// that keeps apart what is not about one thing; blanks, '-', '_', '=', ':' and quotes join.
std::vector<std::string> TextWords(const std::string& text);

// How many words of the text from `at` on are the term's ("tp comm overlap"); 0: they are others. A
// word of a term that ends with '*' is a beginning ("offload*"), others are whole.
size_t TermAt(const std::vector<std::string>& words, size_t at, std::string_view term);

// Whether the `count` words from `at` on are said not to be so: before them ("no", "without using")
// or behind them ("was not used", "off", "=0").
bool Denied(const std::vector<std::string>& words, size_t at, size_t count);

enum class Told : uint8_t { kNothing, kYes, kNo };

// What the text says of the terms, of which the first one that is there counts at each place: yes
// where one is not denied, no where all are.
Told ToldOf(const std::vector<std::string>& words, std::initializer_list<std::string_view> terms);
inline Told ToldOf(const std::string& text, std::initializer_list<std::string_view> terms) {
  return ToldOf(TextWords(text), terms);
}

// A whole number above 0 that the word is; 0: it is none.
int32_t WholeNumber(std::string_view word);

}  // namespace foretrace
