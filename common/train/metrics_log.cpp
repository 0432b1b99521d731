#include "train/metrics_log.h"

#include "cli/error.h"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

namespace tl::train {

namespace {
constexpr std::size_t kMaxLog = std::size_t{1} << 30;

cli::Descriptor open_to_append(const std::string &path, int flags) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0666);
  if (fd < 0) throw SystemError("open " + path, errno);
  return cli::Descriptor(fd);
}
} // namespace

std::string kept_lines(const std::string &text, std::int64_t epoch) {
  std::string kept;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) break; // torn: the process died while it wrote
    const json::Value line = json::Value::parse(text.substr(begin, end - begin), nullptr, false);
    if (line.is_discarded() || !line.is_object()) break;
    // A summary ends a run; whatever follows belongs to a longer one.
    const std::string event = line.value("event", "");
    if (event != "summary") {
      if (line.value("epoch", std::int64_t{0}) > epoch) break;
      kept.append(text, begin, end + 1 - begin);
    }
    begin = end + 1;
  }
  return kept;
}

MetricsLog::MetricsLog(const std::string &path, std::int64_t epoch, const std::string &copy)
    : path_(path), copy_path_(copy) {
  std::error_code failed;
  const std::string before = std::filesystem::exists(path, failed) ? cli::read_file(path, kMaxLog) : "";
  cli::write_output(path, kept_lines(before, epoch));
  file_ = open_to_append(path, O_APPEND);
  if (copy == "-")
    copy_ = cli::Descriptor(STDOUT_FILENO, false);
  else if (!copy.empty())
    copy_ = open_to_append(copy, O_TRUNC);
}

void MetricsLog::add(const json::Value &line) {
  json::validate(line, "metrics", "a metrics line");
  const std::string text = json::compact(line) + "\n";
  cli::write_full(file_.get(), text.data(), text.size(), path_);
  if (copy_.valid())
    cli::write_full(copy_.get(), text.data(), text.size(), copy_path_ == "-" ? "stdout" : copy_path_);
}

} // namespace tl::train
