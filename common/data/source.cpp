#include "data/source.h"

#include "cli/error.h"
#include "cli/io.h"
#include "cli/log.h"
#include "data/listing.h"
#include "data/object_files.h"
#include "data/source_tar.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <numeric>
#include <unordered_set>

namespace tl::data {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kMaxListBytes = std::size_t{1} << 30;
constexpr std::size_t kMaxRecords = UINT32_MAX;
constexpr std::int64_t kMaxRange = 100'000;

bool has_suffix(const std::string &text, const std::string &suffix) {
  return text.size() >= suffix.size() &&
         text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

/// True for "auto" and the kinds of tars.
bool may_be_tar(const std::string &format) { return format == "auto" || is_tar_format(format); }

Listing list_tar_set(const std::vector<std::string> &paths, SourceOptions options) {
  std::vector<TarInput> tars;
  for (const std::string &path : paths) tars.push_back(tar_at(path));
  return list_tars(tars, options, true);
}

/// A folder of tars, or of files.
Listing list_plain_folder(const std::string &folder, SourceOptions options) {
  options.split.clear(); // is this folder
  std::vector<std::string> tars;
  if (may_be_tar(options.format)) tars = tars_in_folder(folder, options.format != "auto");
  if (tars.empty() && is_tar_format(options.format)) throw Error(folder + ": holds no tar");
  for (std::string &tar : tars) tar = (fs::path(folder) / tar).string();
  return tars.empty() ? list_folder(folder) : list_tar_set(tars, options);
}

Listing list_directory(const std::string &folder, const SourceOptions &options) {
  if (options.format == "auto" || options.format == "idx") {
    const std::string images = find_idx(folder, options.split);
    if (!images.empty()) return list_idx(images);
    if (options.format == "idx") throw Error(folder + ": no *-images-idx3-ubyte file in this folder");
  }
  if (options.split.empty()) return list_plain_folder(folder, options);
  const std::string part = (fs::path(folder) / options.split).string();
  std::error_code failed;
  if (!fs::is_directory(part, failed))
    throw UsageError(folder + ": has no sub-folder '" + options.split + "' for that split");
  return list_plain_folder(part, options);
}

bool is_idx_name(const std::string &path) {
  return path.find("idx") != std::string::npos && path.find("ubyte") != std::string::npos;
}

std::string read_text(ByteStream &stream, const std::string &name) {
  std::string text;
  std::vector<char> block(std::size_t{1} << 16);
  while (const std::size_t n = stream.read(block.data(), block.size())) {
    text.append(block.data(), n);
    if (text.size() > kMaxListBytes)
      throw FormatError(name + ": larger than " + std::to_string(kMaxListBytes) +
                        " bytes, the most that a list may have");
  }
  return text;
}

/// A list with NULs may also be a tar that something printed into.
void refuse_text_before_tar(const std::string &text, const std::string &name) {
  constexpr std::size_t kMagicAt = 257;
  for (std::size_t at = text.find("ustar"); at != std::string::npos; at = text.find("ustar", at + 1))
    if (at >= kMagicAt && begins_tar(std::string_view(text).substr(at - kMagicAt, kTarBlock)))
      throw FormatError(name + ": other text stands before a tar: '" +
                        cli::printable(text.substr(0, std::min<std::size_t>(text.find('\n'), 40))) + "'");
}

/// A list or a tar, which a pipe may be as well.
Listing list_stream(const std::string &spec, const SourceOptions &options) {
  const std::string name = spec == "-" ? "stdin" : spec;
  std::string format = options.format;
  auto peeked = std::make_unique<PeekedStream>(open_stream(spec), static_cast<std::size_t>(kTarBlock));
  const bool tar = resembles_tar(peeked->head());
  if (tar && format != "auto") throw UsageError(name + ": is a tar, not a list");
  if (tar) {
    TarInput input = tar_at(spec);
    if (input.file.empty()) { // what was looked at is gone from the pipe
      const auto stream = std::make_shared<std::unique_ptr<ByteStream>>(std::move(peeked));
      input.open = [stream] { return std::move(*stream); };
    }
    return list_tars({input}, options, false);
  }
  if (!options.split.empty()) throw UsageError(name + ": is a list; a split can be chosen in a folder only");
  const std::string text = read_text(*peeked, name);
  if (format == "auto") format = has_suffix(spec, ".csv") ? "csv" : manifest_format(text);
  if (format == "list0") refuse_text_before_tar(text, name);
  Listing listing = list_manifest(spec, text, format);
  open_urls(listing);
  return listing;
}

Listing list_file(const std::string &spec, const SourceOptions &options) {
  std::string format = options.format;
  if (is_tar_format(format)) return list_tars({tar_at(spec)}, options, false);
  if (format == "auto" && has_suffix(spec, ".safetensors")) format = "safetensors";
  if (format == "auto" && is_idx_name(spec)) format = "idx";
  if (format != "idx" && format != "safetensors") return list_stream(spec, options);
  if (!options.split.empty()) throw UsageError(spec + ": is a file; a split can be chosen in a folder only");
  return format == "idx" ? list_idx(spec) : list_safetensors(spec);
}

Listing list_source(const std::string &spec, const SourceOptions &options) {
  static const std::vector<std::string> kFormats = {"auto", "folder",     "csv",         "list", "list0",
                                                    "tar",  "webdataset", "safetensors", "idx"};
  if (std::find(kFormats.begin(), kFormats.end(), options.format) == kFormats.end())
    throw UsageError(
        "'" + options.format +
        "' is no kind of source: want auto, folder, csv, list, list0, tar, webdataset, safetensors or idx");
  if (object::is_url(spec)) return list_objects(spec, options);
  std::error_code failed;
  const fs::file_status status = fs::status(spec, failed);
  if (spec != "-" && !fs::exists(status) && may_be_tar(options.format))
    if (const std::vector<std::string> names = expand_braces(spec); names.front() != spec) {
      if (!options.split.empty()) throw UsageError(spec + ": a split can be chosen in a folder of tars only");
      return list_tar_set(names, options);
    }
  if (spec != "-" && !fs::exists(status)) throw SystemError("open " + spec, failed ? failed.value() : ENOENT);
  if (spec != "-" && fs::is_directory(status)) {
    if (!may_be_tar(options.format) && options.format != "folder" && options.format != "idx")
      throw UsageError(spec + ": is a folder, not a file of the kind " + options.format);
    return list_directory(spec, options);
  }
  if (options.format == "folder") throw UsageError(spec + ": is not a folder");
  return list_file(spec, options);
}

void refuse_duplicates(const Listing &listing, const std::string &spec) {
  std::unordered_set<std::string_view> seen;
  for (const Record &record : listing.records)
    if (!seen.insert(record.id).second)
      throw FormatError(spec + ": " + cli::printable(record.id) + " is listed twice; list each record once");
}

std::int64_t number_or_minus_one(const std::string &text) {
  const bool digits =
      !text.empty() && text.size() <= 9 && text.find_first_not_of("0123456789") == std::string::npos;
  return digits ? std::stoll(text) : -1;
}

/// {"5-7", "cat"} -> {"5", "6", "7", "cat"}, unless a class is called "5-7".
std::vector<std::string> expand_ranges(const std::vector<std::string> &items,
                                       const std::vector<std::string> &classes) {
  std::vector<std::string> names;
  for (const std::string &item : items) {
    const std::size_t dash = item.find('-');
    const std::int64_t first = dash == std::string::npos ? -1 : number_or_minus_one(item.substr(0, dash));
    const std::int64_t last = dash == std::string::npos ? -1 : number_or_minus_one(item.substr(dash + 1));
    const bool is_name = std::find(classes.begin(), classes.end(), item) != classes.end();
    if (is_name || first < 0 || last < first || last - first > kMaxRange)
      names.push_back(item);
    else
      for (std::int64_t n = first; n <= last; ++n) names.push_back(std::to_string(n));
  }
  return names;
}

void keep_only(Listing &listing, const std::vector<bool> &keep) {
  std::size_t to = 0;
  for (std::size_t from = 0; from < listing.records.size(); ++from) {
    if (!keep[from]) continue;
    if (to != from) listing.records[to] = std::move(listing.records[from]);
    if (!listing.rows.empty()) listing.rows[to] = listing.rows[from];
    ++to;
  }
  listing.records.resize(to);
  if (!listing.rows.empty()) listing.rows.resize(to);
}

void filter_classes(Listing &listing, const std::string &spec, const std::vector<std::string> &items) {
  if (items.empty()) return;
  if (listing.classes.empty()) throw UsageError(spec + ": has no labels, so no classes can be chosen");
  const std::vector<std::string> names = expand_ranges(items, listing.classes);
  std::vector<std::int64_t> renumbered(listing.classes.size(), -1);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto found = std::find(listing.classes.begin(), listing.classes.end(), names[i]);
    const std::string hint = json::suggestion(names[i], listing.classes);
    if (found == listing.classes.end())
      throw UsageError(spec + ": has no class '" + cli::printable(names[i]) + "'" +
                       (hint.empty() ? "" : "; " + hint));
    std::int64_t &label = renumbered[static_cast<std::size_t>(found - listing.classes.begin())];
    if (label >= 0) throw UsageError("class '" + cli::printable(names[i]) + "' is chosen twice");
    label = static_cast<std::int64_t>(i);
  }
  std::vector<bool> keep(listing.records.size());
  for (std::size_t i = 0; i < keep.size(); ++i) {
    std::int64_t &label = listing.records[i].label;
    label = label < 0 ? -1 : renumbered[static_cast<std::size_t>(label)];
    keep[i] = label >= 0;
  }
  keep_only(listing, keep);
  listing.classes = names;
}

void limit_classes(Listing &listing, std::int64_t limit, std::uint64_t seed) {
  if (limit < 0) throw UsageError("the limit of records per class is negative");
  if (limit == 0) return;
  std::map<std::int64_t, std::vector<std::pair<std::uint64_t, std::size_t>>> by_class;
  for (std::size_t i = 0; i < listing.records.size(); ++i)
    by_class[listing.records[i].label].emplace_back(mix(seed, hash_text(listing.records[i].id)), i);
  std::vector<bool> keep(listing.records.size());
  for (auto &[label, members] : by_class) {
    std::sort(members.begin(), members.end());
    members.resize(std::min(members.size(), static_cast<std::size_t>(limit)));
    for (const auto &member : members) keep[member.second] = true;
  }
  keep_only(listing, keep);
}

} // namespace

struct Dataset::State {
  std::string spec;
  Listing listing;
};

Dataset::Dataset(std::unique_ptr<State> state) : state_(std::move(state)) {}
Dataset::Dataset(Dataset &&) noexcept = default;
Dataset &Dataset::operator=(Dataset &&) noexcept = default;
Dataset::~Dataset() = default;

Dataset Dataset::open(const std::string &spec, const SourceOptions &options) {
  auto state = std::make_unique<State>();
  state->spec = spec;
  Listing &listing = state->listing = list_source(spec, options);
  if (listing.records.size() > kMaxRecords) throw Error(spec + ": more than 2^32 records");
  refuse_duplicates(listing, spec);
  filter_classes(listing, spec, options.classes);
  limit_classes(listing, options.limit, options.seed);
  if (listing.hidden > 0) listing.notes.push_back(std::to_string(listing.hidden) + " hidden name(s) ignored");
  return Dataset(std::move(state));
}

const std::string &Dataset::spec() const { return state_->spec; }
Content Dataset::content() const { return state_->listing.content; }
const std::vector<Record> &Dataset::records() const { return state_->listing.records; }
const std::vector<std::string> &Dataset::classes() const { return state_->listing.classes; }
const Shape &Dataset::row_shape() const { return state_->listing.row_shape; }
DType Dataset::row_dtype() const { return state_->listing.table.dtype; }
std::int64_t Dataset::hidden() const { return state_->listing.hidden; }
const std::vector<std::string> &Dataset::notes() const { return state_->listing.notes; }

std::optional<FileState> Dataset::state(std::size_t index) const {
  const Listing &listing = state_->listing;
  return listing.files ? listing.files->state(listing.records.at(index).id) : std::nullopt;
}

std::size_t Dataset::reads_in_flight() const {
  return state_->listing.files ? state_->listing.files->reads_in_flight() : 1;
}

Encoded Dataset::read(std::size_t index) const {
  const Listing &listing = state_->listing;
  Encoded record;
  record.is_file = listing.content == Content::files;
  if (record.is_file) {
    const std::int64_t row = listing.rows.empty() ? -1 : listing.rows.at(index);
    record.content = listing.files->read(listing.records.at(index).id, row);
  } else {
    record.content = read_row(listing, listing.rows.at(index));
  }
  record.hash = hash_bytes(record.content.data.get(), record.content.bytes());
  return record;
}

std::vector<std::uint32_t> record_order(const Dataset &dataset, bool shuffle, std::uint64_t seed) {
  const auto &records = dataset.records();
  std::vector<std::uint32_t> order(records.size());
  std::iota(order.begin(), order.end(), 0U);
  if (!shuffle) return order;
  std::vector<std::uint64_t> keys(records.size());
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = mix(seed, hash_text(records[i].id));
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return keys[a] != keys[b] ? keys[a] < keys[b] : a < b; });
  return order;
}

shard::PartOf part_of(const Dataset &dataset, const shard::Partition &partition, bool shuffle,
                      std::uint64_t seed) {
  Hasher hasher;
  hasher.add("tl-listing 1").add(static_cast<std::int64_t>(dataset.classes().size()));
  for (const std::string &name : dataset.classes()) hasher.add(name);
  for (const Record &record : dataset.records()) hasher.add(record.id).add(record.label);
  return {partition, shuffle, shuffle ? seed : 0, hasher.digest(),
          static_cast<std::int64_t>(dataset.records().size())};
}

std::vector<std::uint32_t> only_part(const Dataset &dataset, const std::vector<std::uint32_t> &order,
                                     const shard::Partition &partition) {
  std::vector<std::uint32_t> part;
  for (const std::uint32_t index : order)
    if (partition.holds(dataset.records()[index].id)) part.push_back(index);
  return part;
}

} // namespace tl::data
