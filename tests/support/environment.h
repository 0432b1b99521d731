// Environment variables of a test, put back afterwards.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace tl::test {

class Environment {
public:
  /// Removes every variable whose name begins with one of these.
  explicit Environment(const std::vector<std::string> &prefixes) {
    std::vector<std::string> names;
    for (char **entry = environ; *entry; ++entry) {
      const std::string text = *entry;
      for (const std::string &prefix : prefixes)
        if (text.compare(0, prefix.size(), prefix) == 0) names.push_back(text.substr(0, text.find('=')));
    }
    for (const std::string &name : names) set(name, std::nullopt);
  }
  ~Environment() {
    for (auto entry = saved_.rbegin(); entry != saved_.rend(); ++entry) apply(entry->first, entry->second);
  }
  Environment(const Environment &) = delete;
  Environment &operator=(const Environment &) = delete;

  void set(const std::string &name, const std::optional<std::string> &value) {
    const char *before = std::getenv(name.c_str());
    saved_.emplace_back(name, before ? std::optional<std::string>(before) : std::nullopt);
    apply(name, value);
  }

private:
  static void apply(const std::string &name, const std::optional<std::string> &value) {
    if (value)
      setenv(name.c_str(), value->c_str(), 1);
    else
      unsetenv(name.c_str());
  }

  std::vector<std::pair<std::string, std::optional<std::string>>> saved_;
};

} // namespace tl::test
