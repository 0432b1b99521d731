// SQLite with typed errors: a connection, statements and transactions.
#pragma once

#include "cli/error.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

struct sqlite3;
struct sqlite3_stmt;

namespace tl::store {

/// The file is no SQLite database, or a broken one.
class Damaged : public FormatError {
public:
  using FormatError::FormatError;
};

class Database;

/// A prepared statement. Parameters and columns count from 0.
class Statement {
public:
  Statement(const Database &database, const char *sql);

  Statement &bind(int at, std::int64_t value);
  Statement &bind(int at, double value);
  Statement &bind(int at, const std::string &value);
  template <class T> Statement &bind(int at, const std::optional<T> &value) {
    return value ? bind(at, *value) : *this; // what is not bound is NULL
  }
  /// All of them, in order.
  template <class... T> Statement &with(const T &...values) {
    int at = 0;
    (bind(at++, values), ...);
    return *this;
  }

  /// True while there is a row.
  bool step();
  /// To the end, then ready for other parameters.
  void run();

  bool null(int column) const;
  std::int64_t integer(int column) const;
  double real(int column) const;
  std::string text(int column) const;
  std::optional<double> real_or_null(int column) const;

private:
  const Database *database_;
  std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt *)> statement_;
};

class Database {
public:
  enum class Mode { read, write };
  /// Mode::write creates the file. Waits some seconds while another process writes.
  Database(const std::string &path, Mode mode);

  const std::string &path() const { return path_; }
  /// Any number of statements.
  void execute(const std::string &sql) const;
  std::int64_t number(const char *sql) const;

private:
  friend class Statement;
  /// Throws SystemError (a full disk, a failing one), Damaged, or Error.
  [[noreturn]] void fail(int code) const;

  std::string path_;
  std::unique_ptr<sqlite3, int (*)(sqlite3 *)> handle_;
};

/// Everything until commit(), or nothing.
class Transaction {
public:
  explicit Transaction(const Database &database) : database_(database) {
    database_.execute("BEGIN IMMEDIATE");
  }
  Transaction(const Transaction &) = delete;
  Transaction &operator=(const Transaction &) = delete;
  ~Transaction();
  void commit();

private:
  const Database &database_;
  bool open_ = true;
};

} // namespace tl::store
