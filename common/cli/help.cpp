#include "cli/help.h"

#include <algorithm>

namespace tl::cli {

namespace {

constexpr std::size_t kNameColumn = 34;
constexpr std::size_t kDescriptionColumns = 66;

/// "INT:INT in [1 - 9]" -> "N"; "TEXT:{a,b}" -> "{a,b}"; "NAME" stays.
std::string value_name(const std::string &type) {
  const std::size_t colon = type.find(':');
  if (colon != std::string::npos && type[colon + 1] == '{') return type.substr(colon + 1);
  const std::string name = type.substr(0, colon);
  return name == "INT" || name == "UINT" || name == "FLOAT" ? "N" : name;
}

/// Breaks long lines between words; a continued line is indented as its first one.
std::string wrap(const std::string &text) {
  std::string result;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    const std::string indent(std::min(line.find_first_not_of(' '), line.size()), ' ');
    while (line.size() > kDescriptionColumns) {
      const std::size_t space = line.rfind(' ', kDescriptionColumns);
      if (space == std::string::npos || space <= indent.size()) break;
      result += line.substr(0, space) + "\n";
      line = indent + line.substr(space + 1);
    }
    result += line;
    if (end < text.size()) result += "\n";
    begin = end + 1;
  }
  return result;
}

} // namespace

HelpFormatter::HelpFormatter() { column_width(kNameColumn); }

std::string HelpFormatter::make_option_name(const CLI::Option *option, bool positional) const {
  std::string name = CLI::Formatter::make_option_name(option, positional);
  const std::size_t comma = name.find(",--");
  if (comma != std::string::npos) name.insert(comma + 1, " ");
  return name;
}

std::string HelpFormatter::make_option_opts(const CLI::Option *option) const {
  if (option->get_type_size() == 0) return "";
  std::string text = " " + value_name(option->get_type_name());
  if (!option->get_default_str().empty()) text += "=" + option->get_default_str();
  return text;
}

std::string HelpFormatter::make_option_desc(const CLI::Option *option) const {
  return wrap(option->get_description() + (option->get_required() ? " (required)" : ""));
}

} // namespace tl::cli
