"""Ports for programs that meet on this machine."""
import random
import socket


def free_port():
    """A port at which, and above which, nobody listens now. Outside of those that the system gives to whoever connects,
    so that no other test's connection takes it."""
    while True:
        port = random.randrange(15000, 29000)
        with socket.socket() as one, socket.socket() as above:
            try:
                one.bind(("127.0.0.1", port))
                above.bind(("127.0.0.1", port + 1))
                return port
            except OSError:
                pass  # taken: another one
