#pragma once
// What commands need of CLI11 to declare their options, with its names and meanings. CLI11 is
// header-only and costs about ten seconds a file to compile; options.cpp and main.cpp alone
// include it.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace foretrace::CLI {

// What values an option takes.
class Check {
 public:
  using Apply = std::function<void(::CLI::Option&)>;
  explicit Check(Apply apply) : apply_(std::move(apply)) {}
  void operator()(::CLI::Option& option) const { apply_(option); }

 private:
  Apply apply_;
};
// Numbers from `low` to `high`, both included.
Check Range(int low, int high);
Check Range(int64_t low, int64_t high);
Check Range(double low, double high);
Check IsMember(const std::vector<std::string_view>& names);
Check ExistingFolder();

// Of a command that is only listed there is none behind it, and nothing has an effect.
class Option {
 public:
  explicit Option(::CLI::Option* option) : option_(option) {}
  Option* required();
  Option* type_name(std::string name);
  Option* group(std::string name);  // heading of the help that lists it
  Option* check(const Check& check);
  Option* capture_default_str();
  Option* delimiter(char separator);
  Option* expected(int values);
  Option* allow_extra_args(bool allow);
  Option* excludes(Option* other);
  Option* needs(const std::string& other);

 private:
  ::CLI::Option* option_;
};

// A command, or the program. Owns what it hands out.
class App {
 public:
  // Only the subcommand of the name `chosen` gets its options, where one is given; the others are
  // listed, with their name and help. To declare the options of all takes longer than most run.
  App(::CLI::App* app, std::optional<std::string> chosen) : app_(app), chosen_(std::move(chosen)) {}
  App(const App&) = delete;
  App& operator=(const App&) = delete;
  App* add_subcommand(const std::string& name, const std::string& help);
  App* require_subcommand(int count);
  App* group(std::string name);  // heading of the help that lists it
  App* footer(const std::string& text);
  App* callback(std::function<void()> call);
  // Arguments that the command does not know are no error, but left for `remaining`, in order.
  App* allow_extras();
  std::vector<std::string> remaining() const;
  // The first of these options that the command line names; empty: none of them.
  std::string FirstGiven(std::initializer_list<const char*> names) const;
  // `variable` must outlive the parsing.
  Option* add_option(const std::string& name, std::string& variable, const std::string& help = "");
  Option* add_option(const std::string& name, std::vector<std::string>& variable,
                     const std::string& help = "");
  Option* add_option(const std::string& name, int32_t& variable, const std::string& help = "");
  Option* add_option(const std::string& name, int64_t& variable, const std::string& help = "");
  Option* add_option(const std::string& name, uint64_t& variable, const std::string& help = "");
  Option* add_option(const std::string& name, double& variable, const std::string& help = "");
  Option* add_option(const std::string& name, std::optional<int32_t>& variable,
                     const std::string& help = "");
  Option* add_option(const std::string& name, std::optional<int64_t>& variable,
                     const std::string& help = "");
  Option* add_flag(const std::string& name, bool& variable, const std::string& help = "");

 private:
  template <typename T>
  Option* Add(const std::string& name, T& variable, const std::string& help);
  Option* Keep(::CLI::Option* option);

  ::CLI::App* app_;
  std::optional<std::string> chosen_;  // none: all of them
  bool listed_only_ = false;
  std::vector<std::unique_ptr<App>> commands_;
  std::vector<std::unique_ptr<Option>> options_;
};

}  // namespace foretrace::CLI
