"""What a test says to a run in its own words: messages as runtime/launch/Channel.h frames them."""
import socket
import struct

from support import HANG

# In the order of runtime/launch/Channel.cpp: a message's header has the place of its kind.
KINDS = """listening table ready start permit progress saved report finish prepare drop prepared stop failed end clock load
load_for swap status adapt plan done refused alive measure measured decision layers paced waits rest put text swapped finishes
underway offer offers""".split()


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
    body = cbor({"type": kind, **(fields or {})}) if body is None else body
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
            begin = self.socket.recv(16, socket.MSG_WAITALL)
            if len(begin) < 16:
                return None
            kind, _, size = struct.unpack("<IIQ", begin)
            return KINDS[kind], read_cbor(self.socket.recv(size, socket.MSG_WAITALL))
        except ConnectionResetError:
            return None

    def ask(self, content):
        """All answers to these bytes up to the end of the connection."""
        self.say(content)
        heard = []
        while (answer := self.hear()) is not None:
            heard.append(answer)
        self.socket.close()
        return heard
