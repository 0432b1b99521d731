// Tensor files of the safetensors kind, and what all sources of rows share.
#include "cli/error.h"
#include "cli/log.h"
#include "data/listing.h"
#include "shard/safetensors.h"

#include <algorithm>
#include <filesystem>

namespace tl::data {

namespace {

constexpr std::int64_t kMaxClasses = 1'000'000;

std::vector<std::int64_t> whole_numbers(const Tensor &tensor, const std::string &place) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(tensor.elements()));
  const auto copy = [&](auto *from) { std::copy(from, from + values.size(), values.begin()); };
  switch (tensor.dtype) {
  case DType::u8:
    copy(tensor.as<std::uint8_t>());
    break;
  case DType::i8:
    copy(tensor.as<std::int8_t>());
    break;
  case DType::i16:
    copy(tensor.as<std::int16_t>());
    break;
  case DType::i32:
    copy(tensor.as<std::int32_t>());
    break;
  case DType::i64:
    copy(tensor.as<std::int64_t>());
    break;
  default:
    throw FormatError(place + ": " + std::string(name_of(tensor.dtype)) + "; want whole numbers");
  }
  return values;
}

/// Class names that the file may carry: metadata `classes`, a JSON list of strings.
void name_classes(Listing &listing, const std::map<std::string, std::string> &metadata,
                  const std::string &path) {
  const auto found = metadata.find("classes");
  if (found == metadata.end()) return;
  const std::string place = path + ": metadata 'classes'";
  const json::Value names = json::parse(found->second, place);
  if (!names.is_array() || names.size() < listing.classes.size())
    throw FormatError(place + ": want a list of at least " + std::to_string(listing.classes.size()) +
                      " names");
  listing.classes.clear();
  for (const auto &name : names) {
    if (!name.is_string()) throw FormatError(place + ": want strings");
    listing.classes.push_back(name.get<std::string>());
  }
}

} // namespace

Listing list_safetensors(const std::string &path) {
  return list_safetensors(shard::read_safetensors(path), path);
}

Listing list_safetensors(const shard::SafeTensors &file, const std::string &path) {
  const Tensor *table = nullptr;
  std::string name;
  for (const char *candidate : {"images", "input", "tokens"})
    if (const Tensor *found = file.find(candidate)) {
      if (table) throw FormatError(path + ": holds both '" + name + "' and '" + candidate + "'; keep one");
      table = found;
      name = candidate;
    }
  if (!table) throw FormatError(path + ": holds none of the tensors 'images', 'input' and 'tokens'");
  if (table->shape.size() < 2 || (name == "tokens" && table->shape.size() != 2))
    throw FormatError(path + ": '" + name + "' has the shape " + to_string(table->shape) +
                      "; want one row a record" + (name == "tokens" ? ", N x T" : ""));
  Listing listing;
  listing.content = name == "tokens" ? Content::tokens : Content::rows;
  listing.table = *table;
  listing.row_shape.assign(table->shape.begin() + 1, table->shape.end());
  add_rows(listing, std::filesystem::path(path).stem().string());
  const Tensor *labels = file.find("labels");
  if (!labels) {
    listing.notes.push_back("no tensor 'labels', so no labels");
    return listing;
  }
  if (labels->shape != Shape{table->shape[0]})
    throw FormatError(path + ": 'labels' has the shape " + to_string(labels->shape) +
                      "; want one label for each of " + std::to_string(table->shape[0]) + " rows");
  set_numbered_labels(listing, whole_numbers(*labels, path + ": 'labels'"), path);
  name_classes(listing, file.metadata, path);
  return listing;
}

void add_rows(Listing &listing, const std::string &prefix) {
  if (element_count(listing.row_shape) == 0) throw FormatError(prefix + ": rows without a value");
  for (std::int64_t row = 0; row < listing.table.shape[0]; ++row) {
    listing.records.push_back({prefix + "/" + std::to_string(row), -1});
    listing.rows.push_back(row);
  }
}

void set_numbered_labels(Listing &listing, const std::vector<std::int64_t> &labels,
                         const std::string &origin) {
  std::int64_t largest = -1;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < 0 || labels[i] >= kMaxClasses)
      throw FormatError(origin + ": label " + std::to_string(labels[i]) + " of row " + std::to_string(i) +
                        " is not between 0 and " + std::to_string(kMaxClasses - 1));
    largest = std::max(largest, labels[i]);
    listing.records[i].label = labels[i];
  }
  while (static_cast<std::int64_t>(listing.classes.size()) <= largest)
    listing.classes.push_back(std::to_string(listing.classes.size()));
}

Tensor read_row(const Listing &listing, std::int64_t row) {
  Tensor tensor;
  tensor.dtype = listing.table.dtype;
  tensor.shape = listing.row_shape;
  const std::size_t offset = static_cast<std::size_t>(row) * tensor.bytes();
  tensor.data = std::shared_ptr<std::byte>(listing.table.data, listing.table.data.get() + offset);
  return tensor;
}

} // namespace tl::data
