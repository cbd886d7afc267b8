#include "simulator/planning/mappings/row_platform.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "simulator/base/enum_names.h"
#include "simulator/base/error.h"
#include "simulator/base/shipped.h"
#include "simulator/hardware/accelerator_file.h"
#include "simulator/topology/platform_loader.h"

namespace foretrace {
namespace {

bool IsDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

std::set<std::string> Words(const std::string& text) {
  std::set<std::string> words(std::initializer_list<std::string>{""});
  std::string word;
  for (const char c : LowerCase(text) + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      word += c;
    } else {
      words.insert(std::exchange(word, ""));
    }
  }
  return words;
}

// "A100 80 GB" as "A100 80GB".
std::string WithUnitsJoined(std::string gpu) {
  const std::string lower = LowerCase(gpu);
  for (size_t at = lower.size(); at-- > 1;) {
    if (lower[at] == ' ' && IsDigit(lower[at - 1]) && lower.compare(at + 1, 2, "gb") == 0) {
      gpu.erase(at, 1);
    }
  }
  return gpu;
}

// Vendors and systems, whose words stand before a chip's.
constexpr std::string_view kBeforeChips[] = {"nvidia", "tesla", "amd", "instinct", "dgx", "hgx"};

// In lower case, without what stands before the chip.
std::string FromChip(const std::string& gpu) {
  std::string name = LowerCase(gpu);
  for (const std::string_view before : kBeforeChips) {
    const size_t rest = name.find_first_not_of(" -_", before.size());
    if (name.starts_with(before) && rest != std::string::npos) name.erase(0, rest);
  }
  return name;
}

// A device, and how many of it the text says that there are; 0: it does not.
struct CountedDevice {
  std::string gpu;
  int64_t count = 0;
};

int64_t CountIn(std::string_view digits) {
  int64_t value = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return code == std::errc() && end == digits.data() + digits.size() ? value : 0;
}

// "H100x8", "H100 x 8"; "MI300X" and "RTX 4090" are names, and of "MI300X8" too AMD's has the X.
CountedDevice SplitCountBehind(const std::string& gpu) {
  const size_t digits = gpu.find_last_not_of("0123456789");
  if (digits == std::string::npos || digits + 1 == gpu.size()) return {gpu};
  const size_t x = gpu.find_last_not_of(' ', digits);
  if (x == std::string::npos || x == 0 || (gpu[x] != 'x' && gpu[x] != 'X')) return {gpu};
  const int64_t count = CountIn(std::string_view(gpu).substr(digits + 1));
  const bool amd = FromChip(gpu).starts_with("mi");
  const bool behind_x = LowerCase(gpu.substr(x - 1, 1)) == "x";
  if (amd && x == digits && IsDigit(gpu[x - 1])) return {gpu.substr(0, x + 1), count};
  const bool apart = gpu[x - 1] == ' ';
  const bool joined = (IsDigit(gpu[x - 1]) || (amd && behind_x)) && x == digits;
  const size_t last = gpu.find_last_not_of(' ', x - 1);
  if (last == std::string::npos || !(apart || joined)) return {gpu};
  return {gpu.substr(0, last + 1), count};
}

// "8x H100", "8 x H100" too.
CountedDevice SplitCount(const std::string& text) {
  const CountedDevice behind = SplitCountBehind(WithUnitsJoined(text));
  const std::string& gpu = behind.gpu;
  size_t at = 0;
  while (at < gpu.size() && IsDigit(gpu[at])) ++at;
  const size_t x = gpu.find_first_not_of(' ', at);
  if (at == 0 || x == std::string::npos || (gpu[x] != 'x' && gpu[x] != 'X')) return behind;
  const size_t rest = gpu.find_first_not_of(' ', x + 1);
  if (rest == std::string::npos) return behind;
  return {gpu.substr(rest), CountIn(std::string_view(gpu).substr(0, at))};
}

// The first word that is not a vendor's or a system's: "h100" of "DGX H100".
std::string ChipOf(const std::string& gpu) {
  const std::string name = FromChip(gpu);
  return name.substr(0, name.find_first_of(" -_"));
}

// Of "80gb" among the words; 0: none says it.
int StatedGigabytes(const std::set<std::string>& words) {
  for (const std::string& word : words) {
    int value = 0;
    const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), value);
    const std::string_view unit(end, static_cast<size_t>(word.data() + word.size() - end));
    if (code == std::errc() && (unit == "gb" || unit == "g")) return value;
  }
  return 0;
}

// Data sheets round; a device of 144 GB is sold as one of 141.
bool HasMemory(const Accelerator& device, int gigabytes) {
  const double bytes = static_cast<double>(device.memory_capacity().count());
  return gigabytes == 0 || bytes == 0 || std::abs(bytes / (1e9 * gigabytes) - 1) < 0.09;
}

// Of a chip's boards those that are slower than its main one, where a row names one and the
// device is another.
std::string OtherBoard(const std::set<std::string>& wanted, const std::set<std::string>& has) {
  for (const char* board : {"pcie", "nvl"}) {
    if (wanted.contains(board) && !has.contains(board)) return board;
  }
  return "";
}

}  // namespace

bool NamesChipOf(const std::string& gpu, const std::string& device) {
  return Words(device).contains(ChipOf(SplitCount(gpu).gpu));
}

std::string ChipWord(const std::string& gpu) { return LowerCase(ChipOf(SplitCount(gpu).gpu)); }

std::string DeviceDates::Of(const std::string& gpu) {
  if (!all_) {
    all_.emplace();
    for (const ShippedFile& shipped : ListShipped(kAccelerators)) {
      const auto device = LoadAccelerator(shipped.path);
      if (device.ok() && !device->available.empty()) all_->emplace(device->name, device->available);
    }
  }
  std::string earliest;
  for (const auto& [name, available] : *all_) {
    if (!NamesChipOf(gpu, name)) continue;
    if (earliest.empty() || available < earliest) earliest = available;
  }
  return earliest;
}

const PlatformSpec* RowPlatforms::Nearest(const TrainingRow& row, const Allowed& allowed) const {
  const std::string gpu = SplitCount(row.gpu).gpu, chip = ChipOf(gpu);
  const std::set<std::string> wanted = Words(gpu);
  const int gigabytes = StatedGigabytes(wanted);
  const PlatformSpec* best = nullptr;
  int most = std::numeric_limits<int>::min();
  for (const PlatformSpec& spec : *all_) {
    const std::set<std::string> words = Words(spec.node.accelerator.name);
    const int64_t most_nodes = std::max<int64_t>(spec.nodes, spec.max_nodes);
    if (!words.contains(chip) || most_nodes * spec.node.devices < row.gpus) continue;
    if (!allowed(spec.node.accelerator)) continue;
    // A cluster is what most tables are of, and a paper's machine hardly one.
    int score = most_nodes > 1 ? 10 : 0;
    // "A100" is the board with NVLinks.
    if (words.contains("pcie") && !wanted.contains("pcie")) score -= 30;
    for (const std::string& word : wanted) score += words.contains(word) ? 2 : 0;
    if (spec.node.devices == row.gpus_per_node) score += 200;
    if (!HasMemory(spec.node.accelerator, gigabytes)) score -= 100;
    const auto& tables = spec.tables;
    const bool ran = std::ranges::find(tables, row.source) != tables.end();
    if (!tables.empty()) score += ran ? 50 : -50;
    if (score <= most) continue;
    most = score;
    best = &spec;
  }
  return best;
}

absl::StatusOr<RowPlatform> RowPlatforms::Of(const TrainingRow& row, Bytes needed) {
  if (!all_) {
    all_.emplace();
    for (const ShippedFile& shipped : ListShipped(kPlatforms)) {
      auto spec = LoadPlatform(shipped.path);
      if (!spec.ok() || spec->node.accelerator.peak(RateKind::kFp16) == FlopRate()) continue;
      all_->push_back(*std::move(spec));
    }
  }
  const std::set<std::string> wanted = Words(SplitCount(row.gpu).gpu);
  const int gigabytes = StatedGigabytes(wanted);
  const PlatformSpec* best = Nearest(row, [](const Accelerator&) { return true; });
  if (best == nullptr) {
    return InvalidInput(
        "no platform in topologies/ has {} of the device '{}'; --platform takes one (foretrace "
        "list "
        "platforms) or a file",
        row.gpus, row.gpu);
  }
  std::string note;
  if (gigabytes == 0 && best->node.accelerator.visible_memory() < needed) {
    // The same device with more memory (A100 of 40 and 80 GB), not another one.
    const Accelerator& small = best->node.accelerator;
    const PlatformSpec* larger = Nearest(row, [&](const Accelerator& other) {
      return other.peak(RateKind::kFp16) == small.peak(RateKind::kFp16) &&
             other.visible_memory() >= needed;
    });
    if (larger != nullptr && larger->node.devices == best->node.devices) {
      best = larger;
      note = fmt::format("the device is taken to be {}, as the run would not fit in {}",
                         best->node.accelerator.name, small.name);
    }
  }
  const Accelerator& device = best->node.accelerator;
  const std::string board = OtherBoard(wanted, Words(device.name));
  if (!board.empty()) {
    note = fmt::format("the device is taken to be {}, as no platform has its {} board", device.name,
                       board);
  } else if (!HasMemory(device, gigabytes)) {
    note = fmt::format("the device is taken to be {}, which has not {} GB", device.name, gigabytes);
  }
  // A count is of all devices or of those of a node.
  const int64_t count = SplitCount(row.gpu).count;
  if (count > 0 && count != row.gpus && count != row.gpus_per_node) {
    note += fmt::format("{}gpu '{}' counts {} devices, but gpus says {} and gpus_per_node {}",
                        note.empty() ? "" : "; ", row.gpu, count, row.gpus, row.gpus_per_node);
  }
  return RowPlatform{best->file, note};
}

}  // namespace foretrace
