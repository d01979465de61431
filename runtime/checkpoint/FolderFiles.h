// Files of a folder in which others may write too. What a name leads to is never trusted: no link is followed, nothing
// waits for the other end of a pipe, and what is no regular file is refused.
#pragma once

#include "runtime/plan/Status.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace pipec::runtime {

/// A file that is open for reading.
class FolderFile {
public:
  explicit FolderFile(const std::string &path);
  ~FolderFile();
  FolderFile(const FolderFile &) = delete;

  explicit operator bool() const { return file >= 0; }
  /// Why it is not open: "No such file or directory", "is a FIFO, expected a file".
  const std::string &why() const { return reason; }
  /// In bytes, when it was opened.
  int64_t size() const { return bytes; }
  /// The next bytes, as many as there is room for; none at its end. False on an error, which why() then has.
  bool read(std::vector<char> &part);
  /// Makes its content durable. False on an error, which why() then has.
  bool sync();

private:
  bool fail();

  int file = -1;
  int64_t bytes = 0;
  std::string reason;
};

/// All of a file, which must not be longer than `most` bytes; else `why` says what is wrong.
bool readFolderFile(const std::string &path, int64_t most, std::vector<uint8_t> &bytes, std::string &why);

/// Makes a new, empty file in place of whatever has the name, which is only removed. Code::Run if it cannot.
Status createFolderFile(const std::string &path);

/// Puts a file with these bytes in place of whatever has the name, in one piece. Until then the bytes stand in
/// `path`.partial, so one process at a time does that. Code::Run if it cannot be written.
Status replaceFolderFile(const std::string &path, std::span<const uint8_t> bytes);

} // namespace pipec::runtime
