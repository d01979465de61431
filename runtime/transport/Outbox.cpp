#include "runtime/transport/Outbox.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace pipec::runtime {

bool Outbox::push(std::span<const uint8_t> head, std::shared_ptr<const Bytes> body, Payload payload, Written written) {
  assert(head.size() <= kHead);
  const uint64_t size = head.size() + (body ? body->size() : 0);
  if (!entries.empty() && waiting + size > most)
    return false;
  if (!entries.empty())
    waiting += size;
  Entry &entry = entries.emplace_back();
  std::copy(head.begin(), head.end(), entry.head.begin());
  entry.headSize = head.size();
  entry.body = std::move(body);
  entry.payload = std::move(payload);
  entry.written = std::move(written);
  return true;
}

void Outbox::append(std::span<const uint8_t> text) {
  const size_t at = piece.size();
  piece.resize(at + text.size() + seal.extra());
  std::memcpy(piece.data() + at, text.data(), text.size());
  seal.close(std::span(piece).subspan(at));
}

std::span<const asio::const_buffer> Outbox::next() {
  Entry &entry = entries.front();
  piece.clear();
  if (entry.done == 0)
    append({entry.head.data(), entry.headSize});
  if (const size_t size = std::min(entry.bodySize() - entry.done, kPiece); size > 0) {
    append(std::span(*entry.body).subspan(entry.done, size));
    entry.done += size;
  }
  buffers.assign(1, asio::buffer(piece));
  if (entry.done == entry.bodySize())
    buffers.insert(buffers.end(), entry.payload.begin(), entry.payload.end());
  return buffers;
}

std::optional<Outbox::Written> Outbox::wrote() {
  if (entries.front().done < entries.front().bodySize())
    return std::nullopt;
  return giveUp();
}

Outbox::Written Outbox::giveUp() {
  Written written = std::move(entries.front().written);
  entries.pop_front();
  if (!entries.empty())
    waiting -= entries.front().headSize + entries.front().bodySize();
  return written;
}

std::span<const uint8_t> Outbox::sealed(std::span<const uint8_t> head, std::span<const uint8_t> body) {
  piece.clear();
  append(head);
  append(body);
  return piece;
}

} // namespace pipec::runtime
