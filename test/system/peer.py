"""What a test says to a run in its own words: messages as runtime/launch/Channel.h frames them, to a control socket or as a
rank that holds the job's secret (runtime/transport/host/Wire.h, runtime/transport/Seal.h)."""
import ctypes
import ctypes.util
import hashlib
import os
import socket
import struct
import time

from support import HANG

# In the order of runtime/launch/Messages.h: a message's header has the place of its kind.
KINDS = """listening offer ready progress saved prepared measured paced waits report failed put finishes clock table offers start
permit prepare drop measure decision layers rest finish end text swapped swap stop load load_for adapt status plan done
refused alive asks does""".split()


def cbor(value):
    """RFC 8949, as far as messages need it."""
    def head(major, number):
        for bits, size, code in ((24, "", None), (1 << 8, "B", 24), (1 << 16, "H", 25), (1 << 32, "I", 26), (1 << 64, "Q", 27)):
            if number < bits:
                return bytes([major << 5 | (number if code is None else code)]) + (struct.pack(">" + size, number) if size else b"")
        raise ValueError(number)
    if value is None or isinstance(value, bool):
        return bytes([{False: 0xf4, True: 0xf5, None: 0xf6}[value]])
    if isinstance(value, int):
        return head(0, value) if value >= 0 else head(1, -1 - value)
    if isinstance(value, float):
        return b"\xfb" + struct.pack(">d", value)
    if isinstance(value, bytes):
        return head(2, len(value)) + value
    if isinstance(value, str):
        return head(3, len(value.encode())) + value.encode()
    if isinstance(value, (list, tuple)):
        return head(4, len(value)) + b"".join(map(cbor, value))
    return head(5, len(value)) + b"".join(cbor(key) + cbor(each) for key, each in value.items())


def read_cbor(content):
    """The value that these bytes are."""
    def read(at):
        major, low = content[at] >> 5, content[at] & 31
        at += 1
        if major == 7 and low in (20, 21, 22):
            return {20: False, 21: True, 22: None}[low], at
        if major == 7:
            size, form = {26: (4, ">f"), 27: (8, ">d")}[low]
            return struct.unpack(form, content[at:at + size])[0], at + size
        if low >= 24:
            size = 1 << (low - 24)
            number = int.from_bytes(content[at:at + size], "big")
            at += size
        else:
            number = low
        if major < 2:
            return (number, -1 - number)[major], at
        if major < 4:
            found = content[at:at + number]
            return (found, found.decode())[major - 2] if major == 3 else found, at + number
        items = []
        for _ in range(number * (major - 3)):
            item, at = read(at)
            items.append(item)
        return (items if major == 4 else dict(zip(items[::2], items[1::2]))), at
    return read(0)[0]


def header(kind, size):
    """`kind`: its name or its number."""
    return struct.pack("<IIQ", KINDS.index(kind) if isinstance(kind, str) else kind, 0, size)


def framed(kind, fields=None, body=None):
    """A message; `body`: these bytes in place of fields."""
    body = cbor(fields or {}) if body is None else body
    return header(kind, len(body)) + body


class Client:
    """A connection to a control socket."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(HANG)
        self.socket.connect(str(path))

    def say(self, content):
        """False: the other end hears no more."""
        try:
            self.socket.sendall(content)
            return True
        except (BrokenPipeError, ConnectionResetError):
            return False

    def hear(self):
        """The next answer (its kind, its fields); none: the connection has ended."""
        try:
            begin = self.read(16)
            if len(begin) < 16:
                return None
            kind, _, size = struct.unpack("<IIQ", begin)
            return KINDS[kind], read_cbor(self.read(size))
        except ConnectionResetError:
            return None

    def read(self, size):
        """So many bytes; fewer: the connection has ended."""
        found = bytearray()
        while len(found) < size and (part := self.socket.recv(size - len(found))):
            found += part
        return bytes(found)

    def ask(self, content):
        """All answers to these bytes up to the end of the connection."""
        self.say(content)
        heard = []
        while (answer := self.hear()) is not None:
            heard.append(answer)
        self.socket.close()
        return heard


PROTOCOL = 9
JOB = hashlib.blake2b(digest_size=16).digest()  # of a job without an id


def sodium():
    name = ctypes.util.find_library("sodium")
    return ctypes.CDLL(name) if name else None


def stretched(secret):
    """Argon2id, as runtime/transport/Seal.h has it."""
    key = ctypes.create_string_buffer(32)
    assert sodium().crypto_pwhash(key, ctypes.c_ulonglong(32), secret.encode(), ctypes.c_ulonglong(len(secret)), JOB,
                                  ctypes.c_ulonglong(2), ctypes.c_size_t(64 << 20), 2) == 0
    return key.raw


class Line:
    """A connection of a rank with another of its job, after the handshake."""

    def __init__(self, connection, rank, dials, secret, world, steps, plan):
        self.socket, self.dials = connection, dials
        connection.settimeout(HANG)
        public, private = ctypes.create_string_buffer(32), ctypes.create_string_buffer(32)
        sodium().crypto_kx_keypair(public, private)
        own = b"PIPERUN\n" + struct.pack("<IIII", PROTOCOL, 1, rank, 1 if dials else 2) + JOB + public.raw + os.urandom(32)
        if dials:
            connection.sendall(own)
        other = self.read(104)
        if not dials:
            connection.sendall(own)
        one, two = ctypes.create_string_buffer(32), ctypes.create_string_buffer(32)
        agree = sodium().crypto_kx_client_session_keys if dials else sodium().crypto_kx_server_session_keys
        assert agree(one, two, public, private, other[40:72]) == 0
        up, down = (two.raw, one.raw) if dials else (one.raw, two.raw)
        root = hashlib.blake2b(up + down + (own + other if dials else other + own), digest_size=32, key=secret).digest()
        caller, listener, up, down = (hashlib.blake2b(digest_size=32, key=root, salt=struct.pack("<QQ", which, 0),
                                                      person=b"piperun3" + bytes(8)).digest() for which in (1, 2, 3, 4))
        self.out, self.into = (up, down) if dials else (down, up)
        self.sent = self.heard = 0
        if dials:
            connection.sendall(caller)
            assert self.read(36) == struct.pack("<I", 1) + listener, "the secret differs"
        else:
            assert self.read(32) == caller, "the secret differs"
            connection.sendall(struct.pack("<I", 1) + listener)
        terms = struct.pack("<qII", steps, world, 0) + hashlib.blake2b(plan, digest_size=32).digest()
        self.seal(terms)
        assert self.open(len(terms)) == terms

    def read(self, size):
        content = self.socket.recv(size, socket.MSG_WAITALL)
        if len(content) < size:
            raise ConnectionResetError
        return content

    def seal(self, text):
        sealed = ctypes.create_string_buffer(len(text) + 16)
        sodium().crypto_aead_chacha20poly1305_ietf_encrypt(sealed, None, text, ctypes.c_ulonglong(len(text)), None,
                                                           ctypes.c_ulonglong(0), None, struct.pack("<QI", self.sent, 0), self.out)
        self.sent += 1
        self.socket.sendall(sealed.raw)

    def open(self, size):
        sealed = self.read(size + 16)
        text = ctypes.create_string_buffer(max(size, 1))
        assert sodium().crypto_aead_chacha20poly1305_ietf_decrypt(text, None, None, sealed, ctypes.c_ulonglong(len(sealed)), None,
                                                                  ctypes.c_ulonglong(0), struct.pack("<QI", self.heard, 0),
                                                                  self.into) == 0
        self.heard += 1
        return text.raw[:size]


class Rank:
    """Rank 1 of 2 of a job whose rank 0 is piperun: it says what a test wants."""

    def __init__(self, port, plan, steps, secret):
        self.terms = (stretched(secret), 2, steps, plan.read_bytes())
        end = time.monotonic() + HANG
        while True:
            try:
                connection = socket.create_connection(("127.0.0.1", port), timeout=HANG)
                break
            except ConnectionRefusedError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.01)
        self.controller = Line(connection, 1, True, *self.terms)
        self.peer = None

    def say(self, content):
        """The bytes of a message, of up to 1 MiB."""
        try:
            self.controller.seal(content[:16])
            if len(content) > 16:
                self.controller.seal(content[16:])
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused by its head: what the other end says of that can still be heard

    def tell(self, kind, **fields):
        self.say(framed(kind, fields))

    def hear(self, kind):
        """The fields of the next message of this kind; the others before it are left out."""
        while True:
            number, _, size = struct.unpack("<IIQ", self.controller.open(16))
            fields = read_cbor(self.controller.open(size))
            if KINDS[number] == kind:
                return fields

    def meet(self):
        """Until both have started."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(HANG)
            self.tell("listening", address="127.0.0.1", port=server.getsockname()[1])
            self.hear("table")
            self.peer = Line(server.accept()[0], 1, False, *self.terms)
        self.tell("ready")
        self.hear("start")

    def close(self):
        for line in (self.controller, self.peer):
            if line:
                line.socket.close()


def frame(kind, size=0, tag=(0, 0, 0, 0, 0, 0)):
    """A frame between ranks: wire::Frame."""
    return struct.pack("<IIQqqqiIqqqqqdBBBBIq", kind, 0, size, *tag[:3], *tag[3:5], tag[5], 0, 0, 0, 0, 0.0, 0, 0, 0, 0, 0, 0)
