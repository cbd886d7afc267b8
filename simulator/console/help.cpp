#include "simulator/console/help.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "simulator/console/output.h"

namespace foretrace {
namespace {

constexpr size_t kColumn = 30;  // where descriptions begin

// "  --option VALUE    what it is,
//                     on as many lines as it takes"
std::string Entry(const std::string& left, const std::string& description, size_t width) {
  std::string out = "  " + left;
  if (description.empty()) return out + "\n";
  if (out.size() + 2 > kColumn) {
    out += "\n" + std::string(kColumn, ' ');
  } else {
    out.resize(kColumn, ' ');
  }
  return out + Wrapped(description, width, kColumn, kColumn) + "\n";
}

}  // namespace

std::string HelpFormatter::make_option(const ::CLI::Option* option, bool is_positional) const {
  return Entry(make_option_name(option, is_positional) + make_option_opts(option),
               make_option_desc(option), width_);
}

std::string HelpFormatter::make_subcommand(const ::CLI::App* command) const {
  return Entry(command->get_name(), command->get_description(), width_);
}

std::string HelpFormatter::make_description(const ::CLI::App* app) const {
  const std::string text = app->get_description();
  return text.empty() ? "" : Wrapped(text, width_, 0, 0) + "\n";
}

std::string HelpFormatter::make_footer(const ::CLI::App* app) const {
  // Examples, one a line: a long one goes on behind a backslash, as a shell takes it.
  const size_t width = width_ - 2;
  std::string out;
  std::istringstream lines(app->get_footer());
  for (std::string line; std::getline(lines, line);) {
    while (line.size() > width) {
      const size_t space = line.rfind(' ', width);
      if (space == std::string::npos || space < 6) break;
      out += line.substr(0, space) + " \\\n";
      line = "      " + line.substr(space + 1);
    }
    out += line + "\n";
  }
  return out;
}

}  // namespace foretrace
