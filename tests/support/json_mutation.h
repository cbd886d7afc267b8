#pragma once
// Mistakes in JSON text, as a careless tool would make them: the text stays JSON.

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace foretrace {

using Random = std::mt19937_64;

inline size_t Below(Random& random, size_t n) { return n == 0 ? 0 : random() % n; }

struct Piece {
  size_t begin = 0;
  size_t end = 0;
};

// Numbers, or strings with their quotes.
inline std::vector<Piece> Pieces(std::string_view text, bool numbers) {
  std::vector<Piece> pieces;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') {
      const size_t begin = i++;
      while (i < text.size() && text[i] != '"') i += text[i] == '\\' ? 2 : 1;
      if (!numbers && i < text.size()) pieces.push_back({begin, i + 1});
    } else if (numbers && (text[i] == '-' || (text[i] >= '0' && text[i] <= '9'))) {
      const size_t begin = i;
      while (i < text.size() && std::string_view("+-.eE0123456789").find(text[i]) != text.npos) ++i;
      pieces.push_back({begin, i});
    }
  }
  return pieces;
}

// Lines of events, as KinetoText writes them; of other texts, lines.
inline std::vector<Piece> Lines(std::string_view text) {
  std::vector<Piece> lines;
  for (size_t i = 0; i < text.size();) {
    const size_t end = std::min(text.find('\n', i), text.size() - 1) + 1;
    lines.push_back({i, end});
    i = end;
  }
  return lines;
}

inline std::string Number(Random& random, std::string_view text,
                          const std::vector<Piece>& numbers) {
  static constexpr std::string_view kEdges[] = {"0",
                                                "-1",
                                                "1",
                                                "2147483647",
                                                "2147483646",
                                                "4294967296",
                                                "1e30",
                                                "-1e30",
                                                "9223372036854775807",
                                                "1e-30",
                                                "0.5",
                                                "-2147483648",
                                                "2.3e12",
                                                "-2.3e12",
                                                "64",
                                                "2000000",
                                                "1e9",
                                                "99999999",
                                                "9007199254740993",
                                                "7"};
  if (Below(random, 2) == 0) return std::string(kEdges[Below(random, std::size(kEdges))]);
  const Piece& other = numbers[Below(random, numbers.size())];
  return std::string(text.substr(other.begin, other.end - other.begin));
}

inline void Mutate(Random& random, std::string& text) {
  const size_t kind = Below(random, 10);
  const bool number = kind < 5;
  if (kind < 8) {
    const std::vector<Piece> pieces = Pieces(text, number);
    if (pieces.empty()) return;
    const Piece at = pieces[Below(random, pieces.size())];
    const Piece& other = pieces[Below(random, pieces.size())];
    const std::string with =
        number ? Number(random, text, pieces) : text.substr(other.begin, other.end - other.begin);
    text.replace(at.begin, at.end - at.begin, with);
    return;
  }
  const std::vector<Piece> lines = Lines(text);
  if (lines.size() < 4) return;
  // Neither the first nor the last, which hold more than an event.
  const Piece at = lines[1 + Below(random, lines.size() - 2)];
  if (kind == 8) {
    text.erase(at.begin, at.end - at.begin);
  } else {
    text.insert(at.begin, text.substr(at.begin, at.end - at.begin));
  }
}

}  // namespace foretrace
