#include "simulator/console/arguments.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "absl/strings/ascii.h"
#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/base/utf8.h"
#include "simulator/console/command.h"

namespace foretrace {
namespace {

template <typename T>
bool Parses(std::string_view text, T& value) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// "2026-01-31", of a day that there is.
bool IsDate(std::string_view text) {
  int year = 0;
  unsigned month = 0, day = 0;
  return text.size() == 10 && text[4] == '-' && text[7] == '-' && absl::ascii_isdigit(text[0]) &&
         Parses(text.substr(0, 4), year) && absl::ascii_isdigit(text[5]) &&
         Parses(text.substr(5, 2), month) && absl::ascii_isdigit(text[8]) &&
         Parses(text.substr(8), day) &&
         std::chrono::year_month_day(std::chrono::year(year), std::chrono::month(month),
                                     std::chrono::day(day))
             .ok();
}

absl::Status CheckValue(const ::CLI::Option& option, const std::string& text) {
  const std::string name = option.get_name();
  const std::string shown = Excerpt(text, 60);
  if (text.empty()) return InvalidInput("{}: its value is empty", name);
  if (text.find('\0') != std::string::npos) return InvalidInput("{}: holds a NUL byte", name);
  const std::string type = option.get_type_name();
  if (type == "YYYY-MM-DD" && !IsDate(text)) {
    return InvalidInput("{}: '{}' is no date; write for example 2026-01-31", name, shown);
  }
  if (type.starts_with("FLOAT")) {
    double value = 0;
    if (!Parses(text, value) || !std::isfinite(value)) {
      return InvalidInput("{}: '{}' is not a finite number", name, shown);
    }
  } else if (type.starts_with("UINT")) {
    uint64_t value = 0;
    if (!Parses(text, value)) {
      return InvalidInput("{}: '{}' is not a whole number from 0 to 2^64 - 1", name, shown);
    }
    // Nobody counts so far; a size that is computed with must not wrap.
    if (name != "--seed" && value > (uint64_t{1} << 48)) {
      return InvalidInput("{}: '{}' is too large", name, shown);
    }
  } else if (type.starts_with("INT")) {
    int64_t value = 0;
    if (!Parses(text, value)) {
      return InvalidInput("{}: '{}' is not a whole number", name, shown);
    }
    if (value < 0) return InvalidInput("{}: '{}' must not be negative", name, shown);
  }
  return absl::OkStatus();
}

bool IsOutput(const ::CLI::Option& option) { return option.get_group() == kOutputGroup; }

bool DrawsSvg(const ::CLI::Option& option) {
  const std::string name = option.get_name();
  return name == "--svg" || name == "--picture" || name == "--flamegraph";
}

// Named as what is not written here.
bool IsOtherImage(std::string_view path) {
  constexpr std::string_view kEndings[] = {".png", ".jpg", ".jpeg", ".gif", ".pdf", ".html"};
  return std::ranges::any_of(kEndings, [&](std::string_view end) { return path.ends_with(end); });
}

}  // namespace

absl::Status CheckValues(const ::CLI::App& command) {
  for (const ::CLI::Option* option : command.get_options()) {
    if (option->get_items_expected_max() == 0) continue;  // a flag
    std::set<std::string_view> seen;
    // Of a list, each is taken once; weights stand one for each model.
    const bool once = option->get_delimiter() != 0 && option->get_name() != "--weights";
    for (const std::string& text : option->results()) {
      FORETRACE_RETURN_IF_ERROR(CheckValue(*option, text));
      if (once && !seen.insert(text).second) {
        return InvalidInput("{}: {} is given twice", option->get_name(), Excerpt(text, 60));
      }
    }
  }
  return absl::OkStatus();
}

ProtectedFiles InputsOf(const ::CLI::App& command) {
  ProtectedFiles inputs;
  const auto options = command.get_options();
  if (std::none_of(options.begin(), options.end(), [](const ::CLI::Option* option) {
        return IsOutput(*option) && option->count() > 0;
      })) {
    return inputs;  // nothing is written
  }
  for (const ::CLI::Option* option : command.get_options()) {
    if (IsOutput(*option) || option->get_items_expected_max() == 0) continue;
    for (const std::string& text : option->results()) {
      if (text.empty() || text.size() > 4096) continue;
      inputs.Add(text);
      // "traces.tar:run1"
      if (const size_t colon = text.find(':'); colon != std::string::npos) {
        inputs.Add(text.substr(0, colon));
      }
    }
  }
  return inputs;
}

absl::Status CheckOutputs(const ::CLI::App& command, const ProtectedFiles& inputs) {
  std::map<std::string, std::string> outputs;
  for (const ::CLI::Option* option : command.get_options()) {
    if (!IsOutput(*option)) continue;
    for (const std::string& text : option->results()) {
      if (text == "-") {
        return InvalidInput("{} -: standard output has the report; ./- is a file of that name",
                            option->get_name());
      }
      if (DrawsSvg(*option) && IsOtherImage(text)) {
        return InvalidInput("{}: {}: drawings are SVG; name it .svg", option->get_name(),
                            OneLine(text));
      }
      if (inputs.Contains(text)) {
        return InvalidInput("{}: {} is an input and would be replaced; give another name",
                            option->get_name(), OneLine(text));
      }
      std::error_code error;
      const auto path = std::filesystem::weakly_canonical(std::filesystem::absolute(text), error);
      if (error || std::filesystem::is_directory(path, error) ||
          std::filesystem::is_character_file(path, error)) {
        continue;
      }
      const auto [other, added] = outputs.emplace(path.string(), option->get_name());
      if (!added) {
        return InvalidInput("{} and {} are both {}", other->second, option->get_name(),
                            OneLine(text));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status NamingAnInput(const ::CLI::App& command, absl::Status status) {
  if (status.ok() || absl::IsInternal(status)) return status;
  const std::string message(status.message());
  // Of an option, or of the terminal: no file is to blame.
  if (message.find("--") != std::string::npos ||
      message.find("standard output") != std::string::npos) {
    return status;
  }
  std::string first;
  for (const ::CLI::Option* option : command.get_options()) {
    if (option->get_items_expected_max() == 0) continue;
    for (const std::string& text : option->results()) {
      // The last part of a path: messages may name a file within a folder.
      const std::string name = std::filesystem::path(text).filename().string();
      if (!name.empty() && message.find(name) != std::string::npos) return status;
      std::error_code error;
      if (first.empty() && !IsOutput(*option) && text.size() < 4096 &&
          std::filesystem::exists(text, error)) {
        first = text;
      }
    }
  }
  if (first.empty()) return status;
  return absl::Status(status.code(), fmt::format("{}: {}", first, message));
}

}  // namespace foretrace
