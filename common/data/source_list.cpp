// Lists of paths with labels: CSV, one a line, or NUL-separated as `find -print0` writes them.
#include "cli/error.h"
#include "cli/log.h"
#include "data/listing.h"

#include <algorithm>
#include <filesystem>

namespace tl::data {

namespace {

constexpr const char *kByteOrderMark = "\xef\xbb\xbf";

struct Entry {
  std::string path;
  std::string label;
  bool labelled = false;
};

struct CsvRow {
  std::vector<std::string> fields;
  std::size_t line = 0;
};

/// RFC 4180: quoted fields may hold commas, doubled quotes and line ends.
class CsvReader {
public:
  CsvReader(const std::string &text, const std::string &origin) : text_(text), origin_(origin) {
    if (text_.compare(0, 3, kByteOrderMark) == 0) at_ = 3;
  }

  /// False at the end. Empty lines are passed over.
  bool next(CsvRow &row) {
    while (at_ < text_.size() && (text_[at_] == '\n' || text_.compare(at_, 2, "\r\n") == 0)) skip_line_end();
    if (at_ >= text_.size()) return false;
    row.fields.clear();
    row.line = line_;
    for (;;) {
      row.fields.push_back(field());
      if (at_ >= text_.size()) return true;
      if (text_[at_] == ',') {
        ++at_;
        continue;
      }
      skip_line_end();
      return true;
    }
  }

private:
  bool at_line_end() const { return text_[at_] == '\n' || text_.compare(at_, 2, "\r\n") == 0; }

  void skip_line_end() {
    at_ += text_[at_] == '\r' ? 2 : 1;
    ++line_;
  }

  std::string field() {
    if (at_ < text_.size() && text_[at_] == '"') return quoted();
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != ',' && !at_line_end()) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  std::string quoted() {
    const std::size_t opened = line_;
    std::string value;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '"') {
        if (at_ + 1 >= text_.size() || text_[at_ + 1] != '"') break;
        ++at_;
      } else if (text_[at_] == '\n') {
        ++line_;
      }
      value += text_[at_];
    }
    if (at_ >= text_.size())
      throw FormatError(origin_ + ":" + std::to_string(opened) + ": a quote is opened here and never closed");
    ++at_;
    if (at_ < text_.size() && text_[at_] != ',' && !at_line_end())
      throw FormatError(origin_ + ":" + std::to_string(line_) +
                        ": text after a closing quote; double the quotes inside a field");
    return value;
  }

  const std::string &text_;
  const std::string &origin_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;
};

std::vector<Entry> read_csv(const std::string &text, const std::string &origin) {
  CsvReader reader(text, origin);
  CsvRow row;
  if (!reader.next(row)) return {};
  const auto column = [&](const char *name) {
    return static_cast<std::size_t>(std::find(row.fields.begin(), row.fields.end(), name) -
                                    row.fields.begin());
  };
  const std::size_t columns = row.fields.size(), path = column("path"), label = column("label");
  if (path == columns)
    throw FormatError(origin + ":1: no column 'path' in the header; want the first line to be path,label");
  std::vector<Entry> entries;
  while (reader.next(row)) {
    const std::string place = origin + ":" + std::to_string(row.line) + ": ";
    if (row.fields.size() != columns)
      throw FormatError(place + std::to_string(row.fields.size()) + " fields where the header has " +
                        std::to_string(columns));
    if (row.fields[path].empty()) throw FormatError(place + "empty path");
    Entry entry{row.fields[path], "", false};
    if (label < columns && !row.fields[label].empty()) {
      entry.label = row.fields[label];
      entry.labelled = true;
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::vector<Entry> read_list(const std::string &text, const std::string &origin, char separator) {
  if (separator == '\0' && !text.empty() && text.back() != '\0')
    throw FormatError(origin + ": does not end in a NUL byte; the list is cut off or is not NUL-separated");
  std::vector<std::string> items;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    items.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  // A name may end in CR, but not every one of them: that is a list from Windows.
  const bool crlf = separator == '\n' && !items.empty() &&
                    std::all_of(items.begin(), items.end(),
                                [](const auto &item) { return !item.empty() && item.back() == '\r'; });
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < items.size(); ++i) {
    std::string &item = items[i];
    if (crlf) item.pop_back();
    if (item.empty()) continue;
    const std::size_t tab = item.rfind('\t');
    Entry entry{item.substr(0, tab), tab == std::string::npos ? "" : item.substr(tab + 1),
                tab != std::string::npos};
    const std::string place = origin + ": entry " + std::to_string(i + 1) + ": ";
    if (entry.path.empty() || (entry.labelled && entry.label.empty()))
      throw FormatError(place + "empty path or label");
    if (!entries.empty() && entries.front().labelled != entry.labelled)
      throw FormatError(place + (entry.labelled
                                     ? "has a label (text after a TAB) where the first has none"
                                     : "has no label (a TAB and its text) where the first has one"));
    entries.push_back(std::move(entry));
  }
  return entries;
}

} // namespace

std::string manifest_format(const std::string &text) {
  if (text.find('\0') != std::string::npos) return "list0";
  const std::size_t begin = text.compare(0, 3, kByteOrderMark) == 0 ? 3 : 0;
  std::string header = text.substr(begin, text.find('\n') - begin);
  if (!header.empty() && header.back() == '\r') header.pop_back();
  header = "," + header + ",";
  header.erase(std::remove(header.begin(), header.end(), '"'), header.end());
  return header.find(",path,") != std::string::npos ? "csv" : "list";
}

Listing list_manifest(const std::string &path, const std::string &text, const std::string &format) {
  const std::string origin = path == "-" ? "stdin" : path;
  const std::vector<Entry> entries =
      format == "csv" ? read_csv(text, origin) : read_list(text, origin, format == "list0" ? '\0' : '\n');
  Listing listing;
  listing.files = files_below(path == "-" ? "" : std::filesystem::path(path).parent_path().string());
  for (const Entry &entry : entries)
    if (entry.labelled) listing.classes.push_back(entry.label);
  std::sort(listing.classes.begin(), listing.classes.end());
  listing.classes.erase(std::unique(listing.classes.begin(), listing.classes.end()), listing.classes.end());
  std::size_t unlabelled = 0;
  for (const Entry &entry : entries) {
    if (entry.path.find('\0') != std::string::npos)
      throw FormatError(origin + ": " + cli::printable(entry.path) + ": a path cannot hold a NUL byte");
    // `find .` and a glob must give one record the same name.
    std::size_t begin = 0;
    while (entry.path.compare(begin, 2, "./") == 0 && begin + 2 < entry.path.size()) begin += 2;
    Record record{entry.path.substr(begin), -1};
    if (entry.labelled)
      record.label = std::lower_bound(listing.classes.begin(), listing.classes.end(), entry.label) -
                     listing.classes.begin();
    else
      ++unlabelled;
    listing.records.push_back(std::move(record));
  }
  if (unlabelled > 0) listing.notes.push_back(std::to_string(unlabelled) + " record(s) without a label");
  return listing;
}

} // namespace tl::data
