// Private to common/data: what the readers of the kinds of sources hand to Dataset.
#pragma once

#include "data/file_reader.h"
#include "data/source.h"
#include "shard/safetensors.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tl::data {

struct Listing {
  Content content = Content::files;
  std::shared_ptr<const FileReader> files; // of Content::files
  std::vector<Record> records;
  std::vector<std::string> classes;
  Tensor table;                   // rows and tokens: {N, ...}, in memory or mapped
  Shape row_shape;                // of one row
  std::vector<std::int64_t> rows; // which row each record is; may be empty for files
  std::int64_t hidden = 0;
  std::vector<std::string> notes;
};

/// A file that is to be a record: its path below the data set's folder, and its entry in Listing::rows
/// (-1 when none is needed).
struct ListedFile {
  std::string path;
  std::int64_t row = -1;
};
/// Adds records and classes as a folder of such files has them: the first part of a path is the class,
/// classes and then files stand in bytewise order. `folders`: further classes, which may have no file.
void list_by_folder(Listing &listing, std::vector<ListedFile> files, const std::vector<std::string> &folders);

/// The path up to the end of its first part that begins with a dot; "" when there is none.
std::string hidden_part(const std::string &path);

Listing list_folder(const std::string &folder);
/// `format`: "csv", "list" or "list0". Relative paths start at the file's folder.
Listing list_manifest(const std::string &path, const std::string &text, const std::string &format);
/// "csv", "list" or "list0", by the first bytes.
std::string manifest_format(const std::string &text);

/// `images`: an IDX file of pictures; its labels are looked for beside it.
Listing list_idx(const std::string &images);
/// The IDX images file of a folder that `split` means; "" when the folder holds none.
std::string find_idx(const std::string &folder, const std::string &split);

Listing list_safetensors(const std::string &path);
/// The same of a file in memory; `path` is its name.
Listing list_safetensors(const shard::SafeTensors &file, const std::string &path);

/// One record for each row of the table, "prefix/0" and so on.
void add_rows(Listing &listing, const std::string &prefix);

/// Numbers to class names: classes "0" to the largest; `origin` is the labels' file. Throws
/// FormatError for a label that is negative or absurdly large.
void set_numbered_labels(Listing &listing, const std::vector<std::int64_t> &labels,
                         const std::string &origin);

Tensor read_row(const Listing &listing, std::int64_t row);

} // namespace tl::data
