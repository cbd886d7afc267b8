// What a row's run took of memory, and in which unit that is.

#include <array>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "simulator/mapping/training_row_fields.h"

namespace foretrace {
namespace {

struct Unit {
  std::string_view name;
  double gib;
  bool exact;  // of one meaning
};
constexpr double kGiB = 1 << 30;
constexpr std::array<Unit, 6> kUnits = {{{"gib", 1, true},
                                         {"mib", 1.0 / 1024, true},
                                         {"bytes", 1 / kGiB, true},
                                         {"b", 1 / kGiB, true},
                                         {"gb", 1, false},
                                         {"mb", 1.0 / 1024, false}}};

const Unit* FindUnit(std::string_view name) {
  for (const Unit& unit : kUnits) {
    if (unit.name == name) return &unit;
  }
  return nullptr;
}

struct Stated {
  double gib = 0;
  bool exact = true;
  std::string text;
};

// Of one column; the number's own unit stands over that of the column's name, but for GB and MB,
// which people also write where they mean a column of GiB or MiB. nullopt: no amount.
std::optional<Stated> ReadColumn(const Fields& f, const std::string& column, const Unit* named,
                                 std::vector<std::string>& notes) {
  if (!f.States(column)) return std::nullopt;
  const Fields::Amount amount = f.NumberAndUnit(column);
  const Unit* own = FindUnit(amount.unit);
  const std::string text = fmt::format("{} '{}'", column, f.Text(column));
  if (!(amount.value > 0) || (own == nullptr && !amount.unit.empty())) {
    notes.push_back(text + " is not an amount of memory, and is not judged");
    return std::nullopt;
  }
  if (own == nullptr && named == nullptr) {
    notes.push_back(text + " has no unit, and is not judged; GiB behind it would do");
    return std::nullopt;
  }
  const bool columns =
      own == nullptr || (named != nullptr && named->exact && !own->exact && named->gib == own->gib);
  const Unit& unit = columns ? *named : *own;
  return Stated{amount.value * unit.gib, unit.exact, text};
}

// Equal as printed to three digits, GB being either.
bool Agree(const Stated& a, const Stated& b) {
  const auto near = [&](double ratio) { return std::abs(a.gib / b.gib * ratio - 1) < 0.01; };
  constexpr double kDecimal = 1e9 / kGiB;
  return near(1) || (!a.exact && near(kDecimal)) || (!b.exact && near(1 / kDecimal));
}

std::optional<Stated> ReadAmount(const Fields& f, const std::string& what, TrainingRow& row,
                                 std::string& error) {
  std::optional<Stated> found = ReadColumn(f, what, nullptr, row.notes);
  for (const Unit& unit : kUnits) {
    const std::string column = fmt::format("{}_{}", what, unit.name);
    const std::optional<Stated> stated = ReadColumn(f, column, &unit, row.notes);
    if (!stated) continue;
    if (found && !Agree(*found, *stated) && error.empty()) {
      error = fmt::format("{} and {} contradict one another", found->text, stated->text);
    }
    if (!found || (!found->exact && stated->exact)) found = stated;
  }
  if (found && !found->exact) {
    row.assumed_gib = true;
    row.notes.push_back(found->text + " is taken for GiB, as software counts it");
  }
  return found;
}

}  // namespace

void ReadMemory(const Fields& f, TrainingRow& row, std::string& error) {
  const auto read = [&](const char* what, std::optional<double>& gib) {
    if (const auto stated = ReadAmount(f, what, row, error)) gib = stated->gib;
  };
  read("memory", row.memory_gib);
  read("memory_reserved", row.reserved_gib);
}

}  // namespace foretrace
