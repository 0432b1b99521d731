// Private to common/data: data sets in tars. Two kinds: a folder as it was packed ("tar"), and WebDataset
// samples ("webdataset"): members that stand together and share a key, the name up to its first dot.
#pragma once

#include "data/listing.h"
#include "data/tar_files.h"

#include <cstddef>
#include <string>
#include <vector>

namespace tl::data {

/// True for the values of SourceOptions::format that mean tars.
bool is_tar_format(const std::string &format);

/// `tars` in listing order. `options.format` is "tar", "webdataset", or "auto": decided by the members, and
/// noted. `set`: the tars were named as a set, so the ids of WebDataset samples begin with the tar's name.
/// Throws FormatError naming the tar, what is wrong, and for a damaged one how much was seen before.
Listing list_tars(const std::vector<TarInput> &tars, const SourceOptions &options, bool set);

/// "train-{000..009}.tar", "{a,b}.tar" -> the names meant, as in a shell; {text} when nothing is to be
/// expanded. Throws UsageError for more than 100,000.
std::vector<std::string> expand_braces(const std::string &text);

/// The names of the tars in a folder of them, in bytewise order; {} when it is none. Names decide, .tar with
/// or without what it is packed by; unless `asked` for, only text may stand beside them.
std::vector<std::string> tars_in_folder(const std::string &folder, bool asked);
/// The same, of a folder that holds these `files`, and `others` if it holds anything else.
std::vector<std::string> tars_among(std::vector<std::string> files, bool others, bool asked);
/// True for names like "x.tar" and "x.tar.gz".
bool is_tar_name(const std::string &name);

/// True if a file that begins with these bytes is to be opened as a tar, if only to say what it is.
bool resembles_tar(const std::string &head);

// What list_tars() is made of.

/// The names that unpacking a tar would give.
struct UnpackedNames {
  std::string tar;
  std::vector<ListedFile> files; // as they stand; a link to one of its files is that file
  std::vector<std::string> folders;
};

/// The member that shows that these are samples, not a packed folder: NAME.cls, or NAME.json beside a
/// picture. "" when there is none.
std::string sample_evidence(const UnpackedNames &tar);
std::size_t count_samples(const UnpackedNames &tar);
/// Adds the samples, with labels from .cls or .json. Throws FormatError for one whose members do not stand
/// together, or that has two pictures, or (SourceOptions::missing) has none, or no label.
void list_samples(Listing &listing, const std::vector<UnpackedNames> &tars, const TarFiles &files,
                  const SourceOptions &options, bool set);

} // namespace tl::data
