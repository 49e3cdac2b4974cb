# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Messages between a worker process and its owner, over a stream socket."""

import struct

import cloudpickle

# Commands to a worker, and its answers, one byte each. The end of the stream tells it to close.
RESET, STEP = b"r", b"s"
OK, ERROR = b"k", b"e"


class RemoteTraceback(Exception):
    """The cause of an exception that a worker raised: where it was raised there, as text."""

    def __init__(self, text):
        super().__init__(text)
        self.text = text

    def __str__(self):
        return f"\n{self.text}"


def receive(connection, size):
    """Returns `size` bytes.

    Raises:
        EOFError: if the other side has gone.
        TimeoutError: if the socket has a timeout and nothing comes.
    """
    received = b""
    while len(received) < size:
        try:
            part = connection.recv(size - len(received))
        except ConnectionError:
            part = b""
        if not part:
            raise EOFError("the other side has gone")
        received += part
    return received


def send_object(connection, item):
    """Sends any object; what a script defines in `__main__` travels by value."""
    data = cloudpickle.dumps(item)
    connection.sendall(struct.pack("!Q", len(data)) + data)


def receive_object(connection):
    """Returns what `send_object` sent; raises as `receive` does."""
    (size,) = struct.unpack("!Q", receive(connection, 8))
    return cloudpickle.loads(receive(connection, size))
