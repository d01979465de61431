// The algorithms: Argon2id (crypto_pwhash), X25519 (crypto_kx), BLAKE2b (crypto_generichash, crypto_kdf) and
// ChaCha20-Poly1305 (crypto_aead).
#include "runtime/transport/Seal.h"

#include <cstring>
#include <sodium.h>

namespace pipec::runtime {

static_assert(crypto_kx_PUBLICKEYBYTES == sizeof(Key) && crypto_kx_SECRETKEYBYTES == sizeof(Key));
static_assert(crypto_kx_SESSIONKEYBYTES == sizeof(Key) && crypto_kdf_KEYBYTES == sizeof(Key));
static_assert(crypto_aead_chacha20poly1305_ietf_KEYBYTES == sizeof(Key));

Status stretch(const std::string &secret, const std::array<uint8_t, 16> &job, Key &key) {
  static_assert(crypto_pwhash_SALTBYTES == sizeof job);
  if (crypto_pwhash(key.data(), key.size(), secret.data(), secret.size(), job.data(),
                    crypto_pwhash_OPSLIMIT_INTERACTIVE, crypto_pwhash_MEMLIMIT_INTERACTIVE,
                    crypto_pwhash_ALG_ARGON2ID13) == 0)
    return {};
  return Status::run("the secret could not be made a key: there are no 64 MiB of memory for it");
}

static std::array<uint8_t, crypto_aead_chacha20poly1305_ietf_NPUBBYTES> nonceOf(uint64_t number) {
  std::array<uint8_t, crypto_aead_chacha20poly1305_ietf_NPUBBYTES> nonce{};
  std::memcpy(nonce.data(), &number, sizeof number);
  return nonce;
}

size_t Seal::extra() const { return sealing ? crypto_aead_chacha20poly1305_ietf_ABYTES : 0; }

void Seal::close(std::span<uint8_t> bytes) {
  if (sealing)
    crypto_aead_chacha20poly1305_ietf_encrypt(bytes.data(), nullptr, bytes.data(), bytes.size() - extra(), nullptr, 0,
                                              nullptr, nonceOf(number++).data(), key.data());
}

bool Seal::open(std::span<uint8_t> bytes) {
  return !sealing ||
         crypto_aead_chacha20poly1305_ietf_decrypt(bytes.data(), nullptr, nullptr, bytes.data(), bytes.size(), nullptr,
                                                   0, nonceOf(number++).data(), key.data()) == 0;
}

Exchange::Exchange() { crypto_kx_keypair(ownPublic.data(), ownSecret.data()); }

Exchange::~Exchange() { sodium_memzero(ownSecret.data(), ownSecret.size()); }

// Both proofs and both keys are derived from one hash of the secret, the key exchange and the transcript. So an
// eavesdropper cannot try secrets on a proof, and a proof is worth nothing on another connection.
bool Exchange::agree(bool caller, const Key &peerPublic, const Key &secret, std::span<const uint8_t> transcript,
                     Agreement &agreement) const {
  Key up, down; // keys of the direction to the listener, and to the caller
  const int bad = caller ? crypto_kx_client_session_keys(down.data(), up.data(), ownPublic.data(), ownSecret.data(),
                                                         peerPublic.data())
                         : crypto_kx_server_session_keys(up.data(), down.data(), ownPublic.data(), ownSecret.data(),
                                                         peerPublic.data());
  if (bad != 0)
    return false;
  Key root;
  crypto_generichash_state hash;
  crypto_generichash_init(&hash, secret.data(), secret.size(), root.size());
  crypto_generichash_update(&hash, up.data(), up.size());
  crypto_generichash_update(&hash, down.data(), down.size());
  crypto_generichash_update(&hash, transcript.data(), transcript.size());
  crypto_generichash_final(&hash, root.data(), root.size());
  uint64_t which = 0;
  for (Key *key : {&agreement.callerProof, &agreement.listenerProof, &up, &down})
    crypto_kdf_derive_from_key(key->data(), key->size(), ++which, "piperun3", root.data());
  agreement.session = caller ? Session{Seal(up), Seal(down)} : Session{Seal(down), Seal(up)};
  for (Key *key : {&root, &up, &down})
    sodium_memzero(key->data(), key->size());
  return true;
}

} // namespace pipec::runtime
