#include "cli/app.h"

#include "cli/help.h"
#include "cli/io.h"
#include "cli/log.h"
#include "cli/signals.h"
#include "cli/version.h"

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <new>
#include <sstream>
#include <unistd.h>

namespace tl::cli {

namespace {

/// A program started with a standard stream closed (`>&-`) would get that number for the first
/// file it opens, and write its data there. Give the closed ones a descriptor that refuses I/O.
void reserve_standard_streams() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (fcntl(fd, F_GETFD) == -1 && errno == EBADF) {
      // Opened for the wrong direction on purpose: a write to stdout must fail, not vanish.
      const int opened = open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
      if (opened != fd && opened >= 0) close(opened);
    }
  }
}

ExitCode describe(const std::exception &error) {
  if (const auto *known = dynamic_cast<const Error *>(&error)) {
    if (known->code() != ExitCode::closed_pipe) print_error(known->what());
    return known->code();
  }
  if (dynamic_cast<const std::bad_alloc *>(&error)) {
    print_error("out of memory; use a smaller batch or fewer threads");
    return ExitCode::failed;
  }
  print_error(std::string("internal error: ") + error.what() + "; please report it");
  return ExitCode::failed;
}

void flush_stdout() {
  errno = 0;
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
    if (errno == EPIPE) throw ClosedPipe();
    throw SystemError("write stdout", errno ? errno : EIO);
  }
}

} // namespace

App::App(const std::string &program, const std::string &description, const std::string &examples)
    : CLI::App(description, program) {
  set_version_flag("--version", program + " (tl-tools) " + cli::version());
  add_flag_callback(
      "-q,--quiet", [] { set_quiet(true); }, "No notes and no progress on stderr");
  footer("Examples:\n" + examples + "\nSee also: man " + program + ", man tl-formats");
  formatter(std::make_shared<HelpFormatter>());
}

CLI::Validator size_in_bytes() {
  const auto convert = [](std::string &text) -> std::string {
    const std::string wrong = "'" + text + "' is not a size; want for example 512M or 1.5G";
    double number = 0;
    const char *const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, number);
    std::string unit(end, last);
    for (const char *ending : {"iB", "B"}) { // "64KiB" and "64kB" are "64k"
      const std::size_t n = std::strlen(ending);
      if (unit.size() >= n && unit.compare(unit.size() - n, n, ending) == 0) {
        unit.resize(unit.size() - n);
        break;
      }
    }
    static const std::string prefixes = "kMGT";
    if (unit == "K") unit = "k";
    const std::size_t power = unit.empty() ? 0 : prefixes.find(unit) + 1;
    if (error != std::errc() || unit.size() > 1 || (!unit.empty() && power == 0)) return wrong;
    number = std::ldexp(number, static_cast<int>(10 * power));
    if (!(number >= 0 && number <= 0x1p62)) return wrong;
    text = std::to_string(static_cast<std::int64_t>(number));
    return {};
  };
  return CLI::Validator(convert, "SIZE");
}

int run(App &app, int argc, char **argv, const std::function<ExitCode()> &body) {
  reserve_standard_streams();
  install_signal_handlers();
  set_program_name(app.get_name());
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success &success) { // --help, --version
    // Not straight to std::cout: it would lose the reason when the write fails.
    std::ostringstream text;
    app.exit(success, text, text);
    try {
      write_output("-", text.str());
    } catch (const std::exception &error) {
      return static_cast<int>(describe(error));
    }
    return static_cast<int>(ExitCode::ok);
  } catch (const CLI::ParseError &error) {
    print_error(std::string(error.what()) + " (see " + app.get_name() + " --help)");
    return static_cast<int>(ExitCode::usage);
  } catch (const std::exception &error) {
    return static_cast<int>(describe(error));
  }
  ExitCode code = ExitCode::failed;
  try {
    code = body();
    flush_stdout();
  } catch (const std::exception &error) {
    code = describe(error);
  }
  return static_cast<int>(code);
}

} // namespace tl::cli
