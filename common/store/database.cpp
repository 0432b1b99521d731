#include "store/database.h"

#include <cerrno>
#include <sqlite3.h>

namespace tl::store {

namespace {
constexpr int kPatience = 10'000; // ms that another process may hold the file
} // namespace

Database::Database(const std::string &path, Mode mode) : path_(path), handle_(nullptr, sqlite3_close) {
  sqlite3 *handle = nullptr;
  const int flags = mode == Mode::read ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  // One thread uses a connection, so it needs no mutex of its own.
  const int code = sqlite3_open_v2(path.c_str(), &handle, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  handle_.reset(handle);
  if (code != SQLITE_OK) fail(code);
  sqlite3_busy_timeout(handle, kPatience);
}

void Database::fail(int code) const {
  const int primary = code & 0xFF;
  const int system = handle_ ? sqlite3_system_errno(handle_.get()) : 0;
  if (primary == SQLITE_FULL) throw SystemError("write " + path_, ENOSPC);
  if (primary == SQLITE_NOTADB || primary == SQLITE_CORRUPT)
    throw Damaged(path_ + ": damaged (" + sqlite3_errstr(primary) + ")");
  if ((primary == SQLITE_IOERR || primary == SQLITE_CANTOPEN) && system != 0)
    throw SystemError("use " + path_, system);
  if (primary == SQLITE_BUSY || primary == SQLITE_LOCKED)
    throw Error(path_ + ": another program has it open for long; close it, and run again");
  if (primary == SQLITE_NOMEM) throw std::bad_alloc();
  throw Error(path_ + ": " + (handle_ ? sqlite3_errmsg(handle_.get()) : sqlite3_errstr(code)));
}

void Database::execute(const std::string &sql) const {
  const int code = sqlite3_exec(handle_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail(code);
}

std::int64_t Database::number(const char *sql) const {
  Statement statement(*this, sql);
  return statement.step() ? statement.integer(0) : 0;
}

Statement::Statement(const Database &database, const char *sql)
    : database_(&database), statement_(nullptr, sqlite3_finalize) {
  sqlite3_stmt *statement = nullptr;
  const int code = sqlite3_prepare_v2(database.handle_.get(), sql, -1, &statement, nullptr);
  statement_.reset(statement);
  if (code != SQLITE_OK) database.fail(code);
}

Statement &Statement::bind(int at, std::int64_t value) {
  if (const int code = sqlite3_bind_int64(statement_.get(), at + 1, value)) database_->fail(code);
  return *this;
}

Statement &Statement::bind(int at, double value) {
  if (const int code = sqlite3_bind_double(statement_.get(), at + 1, value)) database_->fail(code);
  return *this;
}

Statement &Statement::bind(int at, const std::string &value) {
  const int code = sqlite3_bind_text64(statement_.get(), at + 1, value.data(), value.size(), SQLITE_TRANSIENT,
                                       SQLITE_UTF8);
  if (code != SQLITE_OK) database_->fail(code);
  return *this;
}

bool Statement::step() {
  const int code = sqlite3_step(statement_.get());
  if (code != SQLITE_ROW && code != SQLITE_DONE) database_->fail(code);
  return code == SQLITE_ROW;
}

void Statement::run() {
  while (step()) {
  }
  sqlite3_reset(statement_.get());
  sqlite3_clear_bindings(statement_.get());
}

bool Statement::null(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}
std::int64_t Statement::integer(int column) const { return sqlite3_column_int64(statement_.get(), column); }
double Statement::real(int column) const { return sqlite3_column_double(statement_.get(), column); }
std::string Statement::text(int column) const {
  const unsigned char *text = sqlite3_column_text(statement_.get(), column);
  return text ? reinterpret_cast<const char *>(text) : "";
}
std::optional<double> Statement::real_or_null(int column) const {
  return null(column) ? std::nullopt : std::optional<double>(real(column));
}

Transaction::~Transaction() {
  if (!open_) return;
  try {
    database_.execute("ROLLBACK");
  } catch (const std::exception &) { // SQLite has rolled back by itself
  }
}

void Transaction::commit() {
  database_.execute("COMMIT");
  open_ = false;
}

} // namespace tl::store
