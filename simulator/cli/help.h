#pragma once
// How help is laid out.

#include <CLI/CLI.hpp>

#include <string>

namespace foretrace {

// Help with descriptions wrapped beside their options, at most 100 columns wide or as wide as the
// terminal.
class HelpFormatter : public ::CLI::Formatter {
 public:
  std::string make_option(const ::CLI::Option* option, bool is_positional) const override;
  std::string make_subcommand(const ::CLI::App* command) const override;
  std::string make_description(const ::CLI::App* app) const override;
  std::string make_footer(const ::CLI::App* app) const override;
};

}  // namespace foretrace
