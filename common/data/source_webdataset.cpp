// Samples of WebDataset: https://github.com/webdataset/webdataset
#include "cli/error.h"
#include "cli/log.h"
#include "data/source_tar.h"
#include "json/document.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <unordered_set>

namespace tl::data {

namespace {

constexpr std::size_t kMaxLabelText = 4096;
constexpr std::size_t kMaxJson = std::size_t{16} << 20;

struct MemberName {
  std::string key;       // "" when the name has no extension
  std::string extension; // in lower case, without the dot
};

MemberName split_name(const std::string &path) {
  const std::size_t slash = path.rfind('/');
  const std::size_t dot = path.find('.', slash == std::string::npos ? 0 : slash + 1);
  if (dot == std::string::npos) return {};
  MemberName name{path.substr(0, dot), path.substr(dot + 1)};
  for (char &c : name.extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  // Of the shard, not of a sample: __meta__.json
  const std::string base = name.key.substr(slash == std::string::npos ? 0 : slash + 1);
  const bool of_shard =
      base.size() > 4 && base.compare(0, 2, "__") == 0 && base.compare(base.size() - 2, 2, "__") == 0;
  return of_shard ? MemberName{} : name;
}

bool is_picture(const std::string &extension) {
  static const std::array<const char *, 11> kPictures = {"jpg",  "jpeg", "png", "webp", "bmp", "tif",
                                                         "tiff", "ppm",  "pgm", "pbm",  "pnm"};
  return std::find(kPictures.begin(), kPictures.end(), extension) != kPictures.end();
}

struct Sample {
  std::string key;
  ListedFile picture, cls, document; // row -1: none
};

/// `ignored` counts the members that say nothing here.
std::vector<Sample> group(const UnpackedNames &tar, std::int64_t &ignored) {
  std::vector<Sample> samples;
  std::unordered_set<std::string> begun;
  for (const ListedFile &file : tar.files) {
    MemberName name = split_name(file.path);
    if (name.key.empty()) {
      ++ignored;
      continue;
    }
    if (samples.empty() || samples.back().key != name.key) {
      if (!begun.insert(name.key).second)
        throw FormatError(tar.tar + ": after " + std::to_string(samples.size()) + " samples the key '" +
                          cli::printable(name.key) + "' comes back with " + cli::printable(file.path) +
                          "; the members of a sample must stand together: pack with tar --sort=name");
      samples.push_back({std::move(name.key), {}, {}, {}});
    }
    Sample &sample = samples.back();
    ListedFile *const place = is_picture(name.extension) ? &sample.picture
                              : name.extension == "cls"  ? &sample.cls
                              : name.extension == "json" ? &sample.document
                                                         : nullptr;
    if (!place)
      ++ignored;
    else if (place->row >= 0)
      throw FormatError(tar.tar + ": the sample '" + cli::printable(sample.key) + "' has both " +
                        cli::printable(place->path) + " and " + cli::printable(file.path) + "; keep one");
    else
      *place = file;
  }
  return samples;
}

struct Label {
  std::string text;
  std::optional<std::int64_t> number;
};

std::string read_text(const TarFiles &files, const ListedFile &member, const std::string &place,
                      std::size_t limit) {
  try {
    const Tensor bytes = files.read(member.path, member.row);
    if (bytes.bytes() > limit)
      throw FormatError(std::to_string(bytes.bytes()) + " bytes, more than a label needs");
    return {bytes.as<char>(), bytes.bytes()};
  } catch (const FormatError &error) { // of the record too
    throw FormatError(place + ": " + error.what());
  }
}

Label label_of_text(std::string text, const std::string &place) {
  constexpr const char *kSpace = " \t\r\n";
  text.erase(text.find_last_not_of(kSpace) + 1);
  text.erase(0, text.find_first_not_of(kSpace));
  if (text.empty() || text.find_first_of(std::string_view("\0\n", 2)) != text.npos)
    throw FormatError(place + ": want a label, a number or the name of a class");
  const std::size_t sign = text[0] == '-' ? 1 : 0;
  const bool number =
      text.size() > sign && text.size() < 18 && text.find_first_not_of("0123456789", sign) == text.npos;
  return {text, number ? std::optional(std::stoll(text)) : std::nullopt};
}

std::optional<Label> read_label(const TarFiles &files, const std::string &tar, const Sample &sample) {
  const auto place = [&](const ListedFile &member) { return tar + ": " + cli::printable(member.path); };
  if (sample.cls.row >= 0)
    return label_of_text(read_text(files, sample.cls, place(sample.cls), kMaxLabelText), place(sample.cls));
  if (sample.document.row < 0) return std::nullopt;
  const std::string where = place(sample.document);
  const nlohmann::json document =
      json::parse_sorted(read_text(files, sample.document, where, kMaxJson), where);
  for (const char *key : {"label", "cls"}) {
    if (!document.is_object() || !document.contains(key)) continue;
    const nlohmann::json &value = document[key];
    if (value.is_number_integer()) return label_of_text(value.dump(), where);
    if (value.is_string()) return label_of_text(value.get<std::string>(), where + ": " + key);
    throw FormatError(where + ": '" + key + "' is neither a whole number nor a class's name");
  }
  return std::nullopt;
}

/// Numbers when all are; else the texts are the names of classes, in bytewise order.
void set_labels(Listing &listing, const std::vector<Label> &labels, const std::string &origin) {
  if (std::all_of(labels.begin(), labels.end(),
                  [](const Label &label) { return label.number.has_value(); })) {
    std::vector<std::int64_t> numbers;
    for (const Label &label : labels) numbers.push_back(*label.number);
    set_numbered_labels(listing, numbers, origin);
    return;
  }
  for (const Label &label : labels) listing.classes.push_back(label.text);
  std::sort(listing.classes.begin(), listing.classes.end());
  listing.classes.erase(std::unique(listing.classes.begin(), listing.classes.end()), listing.classes.end());
  for (std::size_t i = 0; i < labels.size(); ++i)
    listing.records[i].label =
        std::lower_bound(listing.classes.begin(), listing.classes.end(), labels[i].text) -
        listing.classes.begin();
}

/// How long the folder is that all tars are in.
std::size_t common_folder(const std::vector<UnpackedNames> &tars) {
  std::size_t length = tars.front().tar.rfind('/') + 1; // npos + 1 is 0
  for (const UnpackedNames &tar : tars)
    while (length > 0 && tar.tar.compare(0, length, tars.front().tar, 0, length) != 0)
      length = length < 2 ? 0 : tars.front().tar.rfind('/', length - 2) + 1;
  return length;
}

/// "shards/train-000.tar.gz" -> "train-000/"
std::string id_prefix(const std::string &tar, std::size_t folder) {
  const std::string name = tar.substr(folder);
  std::size_t end = name.rfind(".tar");
  if (end == std::string::npos || end == 0) end = name.rfind('.');
  return name.substr(0, end) + "/";
}

class Samples {
public:
  Samples(Listing &listing, const TarFiles &files, bool skip)
      : listing_(listing), files_(files), skip_(skip) {}

  void add(const UnpackedNames &tar, const std::string &prefix) {
    const std::vector<Sample> samples = group(tar, ignored_);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      check_interrupt();
      const Sample &sample = samples[i];
      const auto place = [&] {
        return tar.tar + ": the sample '" + cli::printable(sample.key) + "' (" + std::to_string(i + 1) +
               " of " + std::to_string(samples.size()) + ")";
      };
      if (sample.picture.row < 0) {
        missing(place() + " has no picture", no_picture_);
        continue;
      }
      const std::optional<Label> label = read_label(files_, tar.tar, sample);
      if (!label && unlabelled_place_.empty()) unlabelled_place_ = place();
      listing_.records.push_back({prefix + sample.picture.path, -1});
      listing_.rows.push_back(sample.picture.row);
      labelled_.push_back(label.has_value());
      if (label) labels_.push_back(*label);
    }
  }

  void finish(const std::string &origin) {
    if (labels_.empty() && !listing_.records.empty()) listing_.notes.push_back("no sample has a label");
    if (!labels_.empty() && labels_.size() < labelled_.size()) leave_out_unlabelled();
    if (!labels_.empty()) set_labels(listing_, labels_, origin);
    if (no_picture_ + no_label_ > 0)
      listing_.notes.push_back(std::to_string(no_picture_) + " sample(s) without a picture and " +
                               std::to_string(no_label_) + " without a label left out");
    if (ignored_ > 0)
      listing_.notes.push_back(std::to_string(ignored_) +
                               " member(s) that are neither picture nor label ignored");
  }

private:
  void missing(const std::string &what, std::int64_t &count) const {
    if (!skip_) throw FormatError(what + "; --missing=skip leaves such samples out");
    ++count;
  }

  void leave_out_unlabelled() {
    std::size_t to = 0;
    for (std::size_t from = 0; from < labelled_.size(); ++from) {
      if (!labelled_[from]) {
        missing(unlabelled_place_ + " has no label, as others have", no_label_);
        continue;
      }
      if (to != from) listing_.records[to] = std::move(listing_.records[from]);
      listing_.rows[to++] = listing_.rows[from];
    }
    listing_.records.resize(to);
    listing_.rows.resize(to);
  }

  Listing &listing_;
  const TarFiles &files_;
  bool skip_;
  std::vector<Label> labels_;    // of those that have one
  std::vector<bool> labelled_;   // for each record
  std::string unlabelled_place_; // the first
  std::int64_t ignored_ = 0, no_picture_ = 0, no_label_ = 0;
};

} // namespace

std::string sample_evidence(const UnpackedNames &tar) {
  std::unordered_set<std::string> pictures;
  for (const ListedFile &file : tar.files) {
    const MemberName name = split_name(file.path);
    if (name.extension == "cls") return file.path;
    if (is_picture(name.extension)) pictures.insert(name.key);
  }
  for (const ListedFile &file : tar.files) {
    const MemberName name = split_name(file.path);
    if (name.extension == "json" && pictures.count(name.key) > 0) return file.path;
  }
  return "";
}

std::size_t count_samples(const UnpackedNames &tar) {
  std::unordered_set<std::string> keys;
  for (const ListedFile &file : tar.files)
    if (std::string key = split_name(file.path).key; !key.empty()) keys.insert(std::move(key));
  return keys.size();
}

void list_samples(Listing &listing, const std::vector<UnpackedNames> &tars, const TarFiles &files,
                  const SourceOptions &options, bool set) {
  if (options.missing != "error" && options.missing != "skip")
    throw UsageError("'" + options.missing + "' is no way to treat missing halves: want error or skip");
  const std::size_t folder = common_folder(tars);
  Samples samples(listing, files, options.missing == "skip");
  for (const UnpackedNames &tar : tars) samples.add(tar, set ? id_prefix(tar.tar, folder) : "");
  samples.finish(tars.front().tar);
}

} // namespace tl::data
