// Files of a folder in which others may write too. Names are never trusted: no link is followed, opening does not wait
// for the other end of a pipe, and anything but a regular file is refused.
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
  /// Reads the next bytes into `part`, as many as fit; none at the end. False on an error, which why() then has.
  bool read(std::vector<char> &part);
  /// Makes its content durable. False on an error, which why() then has.
  bool sync();

private:
  bool fail();

  int file = -1;
  int64_t bytes = 0;
  std::string reason;
};

/// Reads all of a file of at most `most` bytes. On failure `why` says what is wrong.
bool readFolderFile(const std::string &path, int64_t most, std::vector<uint8_t> &bytes, std::string &why);

/// Makes a new, empty file. Removes whatever had the name before, without opening it. Code::Run if that fails.
Status createFolderFile(const std::string &path);

/// Replaces whatever has the name by a file with these bytes, atomically. Until then the bytes are in `path`.partial,
/// so only one process at a time may do this. Code::Run if the file cannot be written.
Status replaceFolderFile(const std::string &path, std::span<const uint8_t> bytes);

} // namespace pipec::runtime
