#pragma once
// How help is laid out.

#include <CLI/CLI.hpp>

#include <string>

namespace foretrace {

// Help with descriptions wrapped beside their options.
class HelpFormatter : public ::CLI::Formatter {
 public:
  explicit HelpFormatter(size_t width) : width_(width) {}
  std::string make_option(const ::CLI::Option* option, bool is_positional) const override;
  std::string make_subcommand(const ::CLI::App* command) const override;
  std::string make_description(const ::CLI::App* app) const override;
  std::string make_footer(const ::CLI::App* app) const override;

 private:
  size_t width_;
};

}  // namespace foretrace
