# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Messages between a worker process and its owner, over a stream socket."""

import struct

import cloudpickle

# Commands and replies are one byte each. An object follows the replies LAYOUT and ERROR. A worker closes its
# environments when the stream ends.
RESET, STEP = b"r", b"s"
OK, LAYOUT, ERROR = b"k", b"l", b"e"


class RemoteTraceback(Exception):
    """The cause of an exception from a worker: the text of its traceback there."""

    def __str__(self):
        return f"\n{self.args[0]}"


def receive(connection, size):
    """Returns `size` bytes.

    Raises:
        EOFError: if the other process has closed the connection.
        TimeoutError: if the socket has a timeout and it is over.
    """
    received = b""
    while len(received) < size:
        try:
            part = connection.recv(size - len(received))
        except ConnectionError:
            part = b""
        if not part:
            raise EOFError("the other process has closed the connection")
        received += part
    return received


def pack_object(item):
    """Returns the bytes for `receive_object`. They include the code of a class from `__main__`."""
    data = cloudpickle.dumps(item)
    return struct.pack("!Q", len(data)) + data


def receive_object(connection):
    """Returns an object that was sent as `pack_object(item)`. Raises what `receive` raises."""
    (size,) = struct.unpack("!Q", receive(connection, 8))
    return cloudpickle.loads(receive(connection, size))
